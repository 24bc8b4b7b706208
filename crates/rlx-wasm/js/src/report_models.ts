/** Headers of models of which a report times a layer, in the sizes of `rlx synth`. No byte of a weight is ever needed. */

/** Sizes of a Llama whose head is its embedding. */
export interface ReportModel {
  name: string;
  width: number;
  feedForward: number;
  heads: number;
  kvHeads: number;
  vocab: number;
  ropeBase: number;
  /** Whether divisors of rope's frequencies are a tensor, as in Llama 3. */
  ropeFactors: boolean;
}

export const MODELS: readonly ReportModel[] = [
  { name: 'llama-125m', width: 768, feedForward: 2048, heads: 12, kvHeads: 12, vocab: 50_304, ropeBase: 10_000, ropeFactors: false },
  { name: 'llama-3.2-1b', width: 2048, feedForward: 8192, heads: 32, kvHeads: 8, vocab: 128_256, ropeBase: 500_000, ropeFactors: true },
];

const HEAD = 64;
/** Numbers of GGUF: types of values, of elements, and the bytes that 256 elements take. */
const U32 = 4, F32 = 6, STRING = 8;
const TYPES = { f32: [0, 1024], q4_k: [12, 144], q6_k: [14, 210] } as const;
const ALIGNMENT = 32;

/** The header of a GGUF file with one layer, as q4_k_m has the first: its values and its down matrix have more bits. */
export function headerOf({ width, feedForward, heads, kvHeads, vocab, ropeBase, ropeFactors }: ReportModel): Uint8Array {
  const kv = kvHeads * HEAD;
  const metadata: [key: string, type: number, value: string | number][] = [
    ['general.architecture', STRING, 'llama'],
    ['llama.block_count', U32, 1],
    ['llama.context_length', U32, 4096],
    ['llama.embedding_length', U32, width],
    ['llama.feed_forward_length', U32, feedForward],
    ['llama.attention.head_count', U32, heads],
    ['llama.attention.head_count_kv', U32, kvHeads],
    ['llama.attention.layer_norm_rms_epsilon', F32, 1e-5],
    ['llama.rope.dimension_count', U32, HEAD],
    ['llama.rope.freq_base', F32, ropeBase],
    ['llama.vocab_size', U32, vocab],
  ];
  const tensors: [name: string, type: keyof typeof TYPES, ...dims: number[]][] = [
    ['token_embd', 'q6_k', width, vocab],
    ...(ropeFactors ? [['rope_freqs', 'f32', HEAD / 2] as ['rope_freqs', 'f32', number]] : []),
    ['blk.0.attn_norm', 'f32', width],
    ['blk.0.attn_q', 'q4_k', width, width],
    ['blk.0.attn_k', 'q4_k', width, kv],
    ['blk.0.attn_v', 'q6_k', width, kv],
    ['blk.0.attn_output', 'q4_k', width, width],
    ['blk.0.ffn_norm', 'f32', width],
    ['blk.0.ffn_gate', 'q4_k', width, feedForward],
    ['blk.0.ffn_up', 'q4_k', width, feedForward],
    ['blk.0.ffn_down', 'q6_k', feedForward, width],
    ['output_norm', 'f32', width],
  ];
  const bytes: number[] = [];
  const number = (write: (view: DataView) => void, size: number) => {
    const view = new DataView(new ArrayBuffer(size));
    write(view);
    bytes.push(...new Uint8Array(view.buffer));
  };
  const u32 = (n: number) => number((view) => view.setUint32(0, n, true), 4);
  const u64 = (n: number) => number((view) => view.setBigUint64(0, BigInt(n), true), 8);
  const text = (it: string) => {
    u64(it.length);
    bytes.push(...new TextEncoder().encode(it));
  };
  bytes.push(...new TextEncoder().encode('GGUF'));
  u32(3);
  u64(tensors.length);
  u64(metadata.length);
  for (const [key, type, value] of metadata) {
    text(key);
    u32(type);
    if (typeof value === 'string') text(value);
    else if (type === F32) number((view) => view.setFloat32(0, value, true), 4);
    else u32(value);
  }
  let offset = 0;
  for (const [name, kind, ...dims] of tensors) {
    const [type, per256] = TYPES[kind];
    text(`${name}.weight`);
    u32(dims.length);
    dims.forEach(u64);
    u32(type);
    u64(offset);
    const size = dims.reduce((n, d) => n * d) / 256 * per256;
    offset += Math.ceil(size / ALIGNMENT) * ALIGNMENT;
  }
  while (bytes.length % ALIGNMENT !== 0) bytes.push(0);
  return Uint8Array.from(bytes);
}
