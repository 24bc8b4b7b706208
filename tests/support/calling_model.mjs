// A Llama model that calls a function when it is asked, and tells what the function answered: for tests of what
// stands between a model's tokens and a caller. Each token of its answers leads to the next, whatever was before it.

import { array, byteTokens, entry, f32, F32, header, I32, string, STRING, TYPE_F32, u32, U32 } from './gguf_parts.mjs';

const WIDTH = 64;
const NORMAL = 1, CONTROL = 3;
const START = '<|start|>', END = '<|end|>';

/** The control token that a prompt ends with, and the tokens of the answer to it. */
const ANSWERS = {
  '<|ask|>': ['<think>', 'I must look.', '</think>', '<tool_call>', '{"name": "wea', 'ther", "arguments"', ': {"city": ', '"Bern"}}', '</tool_call>'],
  '<|told|>': ['It is ', 'sunny', ' in Bern.'],
};
export const CALL = { name: 'weather', arguments: { city: 'Bern' } };
export const THOUGHTS = 'I must look.';
export const TOLD = 'It is sunny in Bern.';

// As the templates of Qwen's family: functions first, then messages, calls between marks.
const TEMPLATE = `{% if tools %}${START}{{ tools | tojson }}${END}{% endif %}\
{% for message in messages %}${START}{{ message.role }} {{ message.content or '' }}{{ message.reasoning_content or '' }}\
{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}${END}{% endfor %}\
{{ '<|told|>' if messages[-1].role == 'tool' else '<|ask|>' }}{# </think> #}`;

/** The tokens of an answer that is a call. */
export const calls = (name, given) => ['<tool_call>', `{"name": "${name}", "arguments": `, `${JSON.stringify(given)}}`, '</tool_call>'];

/**
 * The bytes of its file. `asked` and `told` are the tokens of its answers to a question and to a result, 50 in all, each
 * of them once: the last alone may be an earlier one of the same answer, which then goes round and round up to `context`.
 */
export function callingModel({ asked = ANSWERS['<|ask|>'], told = ANSWERS['<|told|>'], context = 2048 } = {}) {
  const answers = { '<|ask|>': asked, '<|told|>': told };
  const goesRound = (tokens) => tokens.indexOf(tokens.at(-1)) < tokens.length - 1;
  const chains = Object.entries(answers).map(([prompt, tokens]) => [prompt, ...tokens, ...(goesRound(tokens) ? [] : [END])]);
  const control = [START, END, ...Object.keys(answers)];
  const own = [...new Set([...control, ...Object.values(answers).flat()])];
  const bytes = byteTokens();
  const spelt = (text) => [...Buffer.from(text)].map((byte) => bytes[byte]).join('');
  const vocabulary = [...bytes, ...own.map((text) => (control.includes(text) ? text : spelt(text)))];
  const id = (text) => bytes.length + own.indexOf(text);
  const metadata = [
    entry('general.architecture', STRING, string('llama')),
    entry('general.name', STRING, string('calling')),
    ...Object.entries({
      block_count: 1, context_length: context, embedding_length: WIDTH, feed_forward_length: WIDTH, 'attention.head_count': 1,
      'attention.head_count_kv': 1, vocab_size: vocabulary.length, 'rope.dimension_count': WIDTH,
    }).map(([key, n]) => entry(`llama.${key}`, U32, u32(n))),
    entry('llama.attention.layer_norm_rms_epsilon', F32, f32(1e-5)),
    entry('tokenizer.ggml.model', STRING, string('gpt2')),
    entry('tokenizer.ggml.pre', STRING, string('llama-bpe')),
    array('tokenizer.ggml.tokens', STRING, vocabulary, string),
    array('tokenizer.ggml.token_type', I32, vocabulary.map((text) => (control.includes(text) ? CONTROL : NORMAL)), u32),
    array('tokenizer.ggml.merges', STRING, ['a b'], string),
    entry('tokenizer.ggml.bos_token_id', U32, u32(id(START))),
    entry('tokenizer.ggml.eos_token_id', U32, u32(id(END))),
    entry('tokenizer.chat_template', STRING, string(TEMPLATE)),
  ];
  // The block adds nothing. What a token is decides alone: its own column of the embedding, which is the next one's of the head.
  const [embedding, head] = [new Float32Array(WIDTH * vocabulary.length), new Float32Array(WIDTH * vocabulary.length)];
  for (const chain of chains) {
    for (const [i, next] of chain.slice(1).entries()) {
      const column = own.indexOf(chain[i]);
      embedding[id(chain[i]) * WIDTH + column] = 1;
      head[id(next) * WIDTH + column] = 4;
    }
  }
  const none = new Float32Array(WIDTH * WIDTH);
  const ones = new Float32Array(WIDTH).fill(1);
  const tensors = [
    ['token_embd', embedding, vocabulary.length], ['output', head, vocabulary.length], ['output_norm', ones],
    ...['attn_norm', 'ffn_norm'].map((part) => [`blk.0.${part}`, ones]),
    ...['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'].map((part) => [`blk.0.${part}`, none, WIDTH]),
  ];
  const infos = tensors.map(([name, , rows]) => ({ name, shape: [WIDTH, ...(rows ? [rows] : [])], type: TYPE_F32 }));
  return Buffer.concat([header(metadata, infos).head, ...tensors.map(([, data]) => Buffer.from(data.buffer))]);
}
