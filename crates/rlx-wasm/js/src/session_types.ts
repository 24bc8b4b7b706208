/** The public types of `Session` and `Embedder`, written by hand like `types.ts`. */

import type { KeepingOptions } from './models_types.js';
import type { DeviceChoice, FileSource, LoadOptions, ModelSource, WasmSource } from './types.js';

/** Options of both `Session.load` and `Embedder.load`, with the meaning of `LoadOptions`. */
export interface NetworkOptions extends Pick<LoadOptions, 'gpu' | 'cache' | 'fetch' | 'headers' | 'tuning' | 'onProgress' | 'onNotice' | 'signal'>, KeepingOptions {
  /** Default `auto`: WebGPU if it works, else the CPU, with one thread. */
  device?: DeviceChoice;
  /** Activation type in matmuls of packed weights. Default `f32`. */
  activations?: 'f32' | 'int8';
  /** As `LoadOptions.wasm`, of `rlx-graphs.wasm` or `rlx-graphs-relaxed.wasm`. */
  wasm?: WasmSource;
}

/** What to load: a model, or a graph with its weights. */
export interface SessionOptions extends NetworkOptions {
  /**
   * As `LoadOptions.model`; or a `.safetensors` file with `config`. A language model has the entry `logits`: the ids of one text
   * to the logits behind each of them. `Engine` is what goes on with a text.
   */
  model?: ModelSource;
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
  weights?: ModelSource;
}

/**
 * Element types. Their arrays are: `f32` Float32Array, `f64` Float64Array, `i32` Int32Array, `u32` Uint32Array, `i16`
 * Int16Array, `i8` Int8Array, `u8` and `bool` (0 or 1) Uint8Array, `i64` BigInt64Array; `f16` and `bf16` Uint16Array,
 * whose numbers are the bits of the elements; `c64` Float32Array of pairs, real and imaginary.
 */
export type ElementType = 'f64' | 'f32' | 'f16' | 'bf16' | 'i64' | 'i32' | 'i16' | 'i8' | 'u32' | 'u8' | 'bool' | 'c64';

export type TensorData =
  | Float64Array | Float32Array | Uint16Array | BigInt64Array | Int32Array | Int16Array | Int8Array | Uint32Array
  | Uint8Array;

/** A tensor for an input. It is read when the run's turn comes, so do not change it until the run has answered. */
export interface TensorInput {
  data: TensorData;
  /** Sizes, outermost first; empty for a scalar. */
  dims: readonly number[];
  /** Default: the input's type, if the array can have it. */
  type?: ElementType;
}

/**
 * A tensor in a buffer that the page made on the session's device (`Session.gpuDevice`), from the buffer's start.
 * WebGPU only. The buffer must have the usage `COPY_SRC`, and at least the elements' bytes, rounded up to a multiple
 * of 4. The page keeps it: the run copies it when its turn comes.
 */
export interface BufferInput {
  buffer: GPUBuffer;
  /** Sizes, outermost first; empty for a scalar. */
  dims: readonly number[];
  /** Default: the input's type. */
  type?: ElementType;
}

/** A tensor of an output, with its own memory. */
export interface TensorOutput {
  data: TensorData;
  /** Sizes, outermost first; empty for a scalar. */
  dims: number[];
  type: ElementType;
}

/** An input or an output of an entry. */
export interface TensorSignature {
  name: string;
  type: ElementType;
  /** Sizes, outermost first: a number, or a text if the size follows from the inputs: `BATCH`, `2*SEQ`. */
  shape: (number | string)[];
}

/** An entry: a function of the network that a session can run. */
export interface SessionEntry {
  name: string;
  inputs: TensorSignature[];
  outputs: TensorSignature[];
}

/** Options of a run. */
export interface RunOptions<Kept extends string = string> {
  /** Names of outputs that stay on the device, as `DeviceTensor`. */
  keep?: readonly Kept[];
  /** Aborting it rejects the run with code `cancelled`. The device finishes submitted work before the next run begins. */
  signal?: AbortSignal;
}

/** The device and the network. `device` to `fallbackReason` are as in `EngineInfo`. */
export interface SessionInfo {
  device: 'webgpu' | 'cpu';
  adapter: string;
  features: string[];
  demoted: string[];
  subgroups: string | null;
  tuning: string | null;
  target: string;
  fallbackReason: string | null;
  /** Facts about the model; null for a graph. */
  model: { family: string; layers: number; width: number; vocab: number; contextLength: number } | null;
  /** Bytes on the device: of weights, and of the largest program's activations. */
  weightBytes: number;
  arenaBytes: number;
  /** Programs on the device: one for each entry and recent set of sizes, at most 8. */
  programs: number;
}

/** Options of `Embedder.load`. */
export interface EmbedderOptions extends NetworkOptions {
  /**
   * An encoder (BERT, nomic-BERT): a GGUF file, which has its tokenizer, or all its shards; the address of a folder, with
   * `/` at its end, that has `config.json`, `model.safetensors`, `tokenizer.json` or `vocab.txt`, and, if it is a
   * sentence-transformers folder, `modules.json`, `1_Pooling/config.json` and `sentence_bert_config.json`; or a
   * `.safetensors` file with `config` and `tokenizer`.
   */
  model: ModelSource;
  /** The `config.json` of a safetensors file. */
  config?: FileSource;
  /** The `tokenizer.json` or `vocab.txt` of a safetensors file. */
  tokenizer?: FileSource;
  /** How one vector is computed from a text's rows. Default: as the files say, else `mean`. */
  pooling?: 'mean' | 'cls' | 'last' | 'max';
  /** Whether to scale vectors to length 1. Default: as the files say, else true. */
  normalise?: boolean;
  /** Most tokens of a text, 2 or more; longer texts are cut. Default: as the files say. */
  maxTokens?: number;
}

/** The progress of `embed`. */
export interface EmbedProgress {
  /** How many texts are done, and how many there are. */
  done: number;
  total: number;
  /** How many texts are cut because they are longer than `maxTokens`. */
  truncated: number;
}

/** Options of `embed`. */
export interface EmbedCallOptions {
  /** Called after each batch of texts. */
  onProgress?: (progress: EmbedProgress) => void;
  /** Aborting it rejects with code `cancelled`. The running batch ends before the next call begins. */
  signal?: AbortSignal;
}
