// A Llama model of any size, made while it is read: a real header, tensors of a repeated pattern.

import { array, byteTokens, entry, f32, F32, header, I32, string, STRING, TYPE_F16, TYPE_F32, u32, U32 } from './gguf_parts.mjs';

const TEMPLATE = "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}";

/**
 * A file as the test server serves it: `{ bytes, tensorBytes, read(from, to) }`. Nearly all its
 * bytes are F16 matrices of `layers` feed-forward blocks, `width` by `hidden`.
 */
export function bigGguf({ layers, width = 512, hidden = 16384 }) {
  const vocabulary = [...byteTokens(), '<|im_start|>', '<|im_end|>'];
  const metadata = [
    entry('general.architecture', STRING, string('llama')),
    entry('general.name', STRING, string('big')),
    ...Object.entries({
      block_count: layers, context_length: 256, embedding_length: width, feed_forward_length: hidden,
      'attention.head_count': 8, 'attention.head_count_kv': 8, vocab_size: vocabulary.length,
      'rope.dimension_count': width / 8,
    }).map(([key, n]) => entry(`llama.${key}`, U32, u32(n))),
    entry('llama.attention.layer_norm_rms_epsilon', F32, f32(1e-5)),
    entry('tokenizer.ggml.model', STRING, string('gpt2')),
    entry('tokenizer.ggml.pre', STRING, string('llama-bpe')),
    array('tokenizer.ggml.tokens', STRING, vocabulary, string),
    array('tokenizer.ggml.token_type', I32, vocabulary.map((_, i) => (i < 256 ? 1 : 3)), u32),
    array('tokenizer.ggml.merges', STRING, ['a b'], string),
    entry('tokenizer.ggml.bos_token_id', U32, u32(256)),
    entry('tokenizer.ggml.eos_token_id', U32, u32(257)),
    entry('tokenizer.chat_template', STRING, string(TEMPLATE)),
  ];
  // Norms first: they are ones, all that follows is the pattern.
  const blocks = Array.from({ length: layers }, (_, i) => `blk.${i}`);
  const norms = [...blocks.flatMap((block) => [`${block}.attn_norm`, `${block}.ffn_norm`]), 'output_norm']
    .map((name) => ({ name, shape: [width], type: TYPE_F32 }));
  const matrix = (name, ...shape) => ({ name, shape, type: TYPE_F16 });
  const matrices = [
    matrix('token_embd', width, vocabulary.length),
    ...blocks.flatMap((block) => [
      ...['q', 'k', 'v', 'output'].map((part) => matrix(`${block}.attn_${part}`, width, width)),
      matrix(`${block}.ffn_gate`, width, hidden),
      matrix(`${block}.ffn_up`, width, hidden),
      matrix(`${block}.ffn_down`, hidden, width),
    ]),
  ];
  const { head, tensorBytes } = header(metadata, [...norms, ...matrices]);
  const ones = Buffer.from(new Float32Array(norms.length * width).fill(1).buffer);
  const start = Buffer.concat([head, ones]);
  // 64 KiB of F16 numbers of either sign, around 0.01.
  const pattern = Buffer.from(Uint16Array.from({ length: 1 << 15 }, (_, i) => {
    const mixed = Math.imul(i + 1, 0x9e3779b1) >>> 16;
    return 0x2000 | (mixed & 0x83ff);
  }).buffer);
  const bytes = head.length + tensorBytes;
  const read = (from, to) => {
    const out = Buffer.allocUnsafe(to - from);
    let at = from;
    if (at < start.length) at += start.copy(out, 0, at, Math.min(to, start.length));
    while (at < to) {
      const skip = (at - start.length) % pattern.length;
      at += pattern.copy(out, at - from, skip, skip + Math.min(pattern.length - skip, to - at));
    }
    return out;
  };
  return { bytes, tensorBytes, read };
}
