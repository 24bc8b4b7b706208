/** The public surface of `Session` and `Embedder`, written by hand as `types.ts` is. */

import type { DeviceChoice, LoadOptions } from './types.js';

/** A file of a model: an address, or the file itself. */
export type FileSource = string | URL | Blob;

/** What `Session.load` and `Embedder.load` both take; each is as in `LoadOptions`. */
export interface NetworkOptions extends Pick<LoadOptions, 'gpu' | 'cache' | 'tuning' | 'onProgress' | 'onNotice' | 'signal'> {
  /** Default `auto`: WebGPU where it works, else the CPU, with one thread. */
  device?: DeviceChoice;
  /** Element type of matmul inputs against packed weights. Default `f32`. */
  activations?: 'f32' | 'int8';
  /** Address of `rlx-graphs.wasm` or `rlx-graphs-relaxed.wasm`. Default: the one that this browser runs, beside the package's modules. */
  wasmUrl?: string | URL;
}

/** What to load: a model, or a graph with its weights. */
export interface SessionOptions extends NetworkOptions {
  /**
   * A GGUF file or all its shards, a `.safetensors` file with `config`, or the address of a folder, with `/` at its
   * end, that has `config.json` and `model.safetensors`. A language model has the entry `logits`: the ids of one text
   * to the logits behind each of them. `Engine` is what goes on with a text.
   */
  model?: FileSource | readonly (string | URL)[] | readonly Blob[];
  /** The `config.json` of a model in a safetensors file. */
  config?: FileSource;
  /**
   * Positions of a language model's caches: tokens of a text at most. Default 4096, or as many as the model was
   * trained for.
   */
  contextLength?: number;
  /** A graph's text, blocks (`module`) or operators (`func`), as `rlx inspect` prints them. Instead of `model`. */
  graph?: string;
  /** The weights of `graph`: a `.safetensors` file, or a GGUF file or all its shards. */
  weights?: FileSource | readonly (string | URL)[] | readonly Blob[];
}

/**
 * Element types. Arrays of them: `f32` Float32Array, `f64` Float64Array, `i32` Int32Array, `u32` Uint32Array, `i16`
 * Int16Array, `i8` Int8Array, `u8` and `bool` (0 or 1) Uint8Array, `i64` BigInt64Array; `f16` and `bf16` Uint16Array,
 * whose numbers are the bits of the elements; `c64` Float32Array of pairs, real and imaginary.
 */
export type ElementType = 'f64' | 'f32' | 'f16' | 'bf16' | 'i64' | 'i32' | 'i16' | 'i8' | 'u32' | 'u8' | 'bool' | 'c64';

export type TensorData =
  | Float64Array | Float32Array | Uint16Array | BigInt64Array | Int32Array | Int16Array | Int8Array | Uint32Array
  | Uint8Array;

/** A tensor for an input. It is read when the run's turn comes: leave it as it is until the run has answered. */
export interface TensorInput {
  data: TensorData;
  /** Sizes, outermost first; none of a scalar. */
  dims: readonly number[];
  /** Default: the input's, where such an array can have it. */
  type?: ElementType;
}

/**
 * A tensor in a buffer that the page made on the session's device (`Session.gpuDevice`), from the buffer's start.
 * WebGPU only. The buffer has the usage `COPY_SRC`, and a size of at least the elements' bytes, rounded up to whole
 * fours. It stays the page's: it is copied when the run's turn comes.
 */
export interface BufferInput {
  buffer: GPUBuffer;
  /** Sizes, outermost first; none of a scalar. */
  dims: readonly number[];
  /** Default: the input's. */
  type?: ElementType;
}

/** A tensor of an output, in memory of its own. */
export interface TensorOutput {
  data: TensorData;
  /** Sizes, outermost first; none of a scalar. */
  dims: number[];
  type: ElementType;
}

/** An input or an output of an entry. */
export interface TensorSignature {
  name: string;
  type: ElementType;
  /** Sizes, outermost first: a number, or a text where it follows from the inputs: `BATCH`, `2*SEQ`. */
  shape: (number | string)[];
}

/** Something that a session can be asked. */
export interface SessionEntry {
  name: string;
  inputs: TensorSignature[];
  outputs: TensorSignature[];
}

/** What a run may be given. */
export interface RunOptions<Kept extends string = string> {
  /** Names of outputs that stay on the device, as `DeviceTensor`. */
  keep?: readonly Kept[];
  /** Aborting it rejects the run with code `cancelled`. The device ends what it was handed before the next run begins. */
  signal?: AbortSignal;
}

/** What runs where. The first eight are as in `EngineInfo`. */
export interface SessionInfo {
  device: 'webgpu' | 'cpu';
  adapter: string;
  features: string[];
  demoted: string[];
  tuning: string | null;
  target: string;
  fallbackReason: string | null;
  /** What is known of a model; null of a graph. */
  model: { family: string; layers: number; width: number; vocab: number; contextLength: number } | null;
  /** Bytes on the device: of weights, and of the largest program's activations. */
  weightBytes: number;
  arenaBytes: number;
  /** Programs on the device: one for each entry and sizes of late, at most 8. */
  programs: number;
}

/** What an embedder is made of. */
export interface EmbedderOptions extends NetworkOptions {
  /**
   * An encoder (BERT, nomic-BERT): a GGUF file, which has its tokenizer, or all its shards; the address of a folder, with
   * `/` at its end, that has `config.json`, `model.safetensors`, `tokenizer.json` or `vocab.txt`, and, if it is a
   * sentence-transformers folder, `modules.json`, `1_Pooling/config.json` and `sentence_bert_config.json`; or a
   * `.safetensors` file with `config` and `tokenizer`.
   */
  model: FileSource | readonly (string | URL)[] | readonly Blob[];
  /** The `config.json` of a safetensors file. */
  config?: FileSource;
  /** The `tokenizer.json` or `vocab.txt` of a safetensors file. */
  tokenizer?: FileSource;
  /** What makes one vector of a text's rows. Default: what the files say, else `mean`. */
  pooling?: 'mean' | 'cls' | 'last' | 'max';
  /** Whether vectors are divided by their lengths. Default: what the files say, else true. */
  normalise?: boolean;
  /** Tokens of a text at most, 2 or more; the rest is cut off. Default: what the files say. */
  maxTokens?: number;
}

/** How far `embed` is. */
export interface EmbedProgress {
  /** Texts that are done, and all. */
  done: number;
  total: number;
  /** Texts that are longer than `maxTokens`, and are cut. */
  truncated: number;
}

/** What `embed` may be given. */
export interface EmbedCallOptions {
  /** Called after each batch of texts. */
  onProgress?: (progress: EmbedProgress) => void;
  /** Aborting it rejects with code `cancelled`. The batch that runs ends before the next call begins. */
  signal?: AbortSignal;
}
