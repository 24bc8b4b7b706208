/** The public types of the package, written by hand; those of OpenAI's shapes stand in `openai/types.ts`. */

import type { RlxError } from './error.js';

import type { KeepingOptions } from './models_types.js';

/**
 * Which executor runs the model. `auto` takes WebGPU if it works, else the CPU: also if a load fails on the GPU
 * because of missing memory, a lost device or a rejected kernel, or if the processor only simulates a GPU.
 * `info().fallbackReason` says why.
 */
export type DeviceChoice = 'auto' | 'webgpu' | 'cpu';

/** Element types that the key-value cache may have. */
export type KvType = 'f32' | 'f16' | 'q8_0';

/** What to load and where to run it. */
export interface LoadOptions extends KeepingOptions {
  /**
   * The model: the addresses of one GGUF file or of all its shards, or the files themselves.
   * Shards may come in any order; the files say which is which.
   *
   * Or a folder of safetensors, as transformers writes it: its address with `/` at its end, or a list of its files
   * (addresses, or `File`s, also those of a chosen directory). It has `config.json`; `tokenizer.json` or
   * `tokenizer.model`; `model.safetensors`, or the files that `model.safetensors.index.json` names; and may have
   * `tokenizer_config.json`, `generation_config.json` and `chat_template.jinja`. In a list they are known by these
   * names, and others are not read.
   */
  model: string | URL | Blob | readonly (string | URL)[] | readonly Blob[];
  /** Default `auto`. If there is no WebGPU, `webgpu` is an error; it never falls back to the CPU. */
  device?: DeviceChoice;
  /** Most tokens of prompt and answer together. Default: as the model was trained, at most 4096. */
  contextLength?: number;
  /** Positions of a block, 2 to 4096, of a model that fills blocks. Default: as many as it was trained with. */
  blockLength?: number;
  /** A WebGPU entry point to use instead of `navigator.gpu`, such as npm `webgpu` in Node. */
  gpu?: GPU;
  /** Whether to store shards from addresses in the browser, for the next visit. Default true. */
  cache?: boolean;
  /**
   * Element type of the key-value cache. Default: the device's, see `info().kv`. `q8_0` (blocks of 32, 34
   * bytes each) takes about half the memory of `f16` and needs heads of whole blocks, on WebGPU of whole 64.
   */
  kv?: KvType;
  /** Activation type in matmuls of packed weights. Default: the device's. */
  activations?: 'f32' | 'int8';
  /**
   * The tuning of WebGPU's kernels, as `Engine.tune` found it on this device. Default: the one that it stored in
   * `localStorage`, which workers and Node do not have; else the usual tuning.
   */
  tuning?: string;
  /**
   * Threads of the CPU, including the page's own, 1 to 64. Default: one per core, at most 8. More than one
   * need a cross-origin isolated page; other pages have one thread, see `info().adapter`.
   */
  threads?: number;
  /**
   * Where the engine runs. In a page the default is true: in a module worker of its own, so that the page's thread
   * is never busy with it. With `false`, and everywhere else, it runs in the calling thread. Or a `Worker` whose module
   * imports `rlx-wasm/worker`, or the address of such a module. `gpu` needs the calling thread.
   */
  worker?: boolean | Worker | URL | string;
  /**
   * Address of `rlx.wasm` or `rlx-relaxed.wasm`. Default: the best one for this browser, next to the package's
   * modules. A build at an address given here has one thread.
   */
  wasmUrl?: string | URL;
  /** Called as bytes arrive, at most once per chunk. If it throws, the error is reported as uncaught, and the load continues. */
  onProgress?: (progress: LoadProgress) => void;
  /** Called with news for users: offline, no room for the cache, a GPU that computes wrong values. It may throw like `onProgress`. */
  onNotice?: (notice: Notice) => void;
  /**
   * Called when the engine cannot go on without `reload`: its device was lost, or the wasm module stopped. Calls that
   * run reject by themselves. It may throw like `onProgress`.
   */
  onLost?: (error: RlxError) => void;
  /** Aborting it rejects `load` with code `cancelled` and frees everything. */
  signal?: AbortSignal;
}

/** Options of `Engine.tune`. */
export interface TuneOptions extends Pick<LoadOptions, 'gpu' | 'wasmUrl' | 'signal'> {
  /** Called with the progress, from 0 to 1. */
  onProgress?: (done: number) => void;
}

/** The result of `Engine.tune`. */
export interface Tuned {
  /** The adapter that was measured. */
  adapter: string;
  /** The tuning, for `LoadOptions.tuning`. */
  tuning: string;
  /** Whether it is stored in `localStorage`, so that loads of this origin use it automatically. */
  kept: boolean;
}

/** Options of `tokenize`. */
export interface TokenizeOptions {
  /** Recognise control tokens, and add those that begin and end a text; default false. */
  special?: boolean;
}

/** Options of `reload`; all others are those of `load`. */
export type ReloadOptions = Pick<LoadOptions, 'onProgress' | 'signal'>;

/** The progress of a load. */
export interface LoadProgress {
  /**
   * `headers`: reading the shards' headers; `compile`: planning; `weights`: loading tensor bytes; `check`: comparing
   * the GPU's kernels with the CPU's, unless that was done before; `ready`: done, also with a reload's tokens.
   */
  phase: 'headers' | 'compile' | 'weights' | 'check' | 'ready';
  /** Bytes of the shards that have arrived and are on the device. */
  loadedBytes: number;
  /** Bytes of all shards; absent as long as a server has not told them. */
  totalBytes?: number;
  /** Where the bytes come from; `mixed` when shards differ. */
  from: 'network' | 'cache' | 'file' | 'mixed';
  /** The file that the last bytes are of; absent in phases that read none. */
  file?: { name: string; loadedBytes: number; totalBytes?: number };
  /** Bytes of all shards in the last seconds, for each of them; absent until there is something to say. */
  bytesPerSecond?: number;
}

/** Something worth showing that is not an error. */
export interface Notice {
  code: 'offline' | 'cache_unavailable' | 'cache_full' | 'kernels_demoted' | 'worker_unavailable';
  /** One sentence. */
  message: string;
}

/** The device and the model, with measurements. */
export interface EngineInfo {
  device: 'webgpu' | 'cpu';
  /** The GPU adapter's name, or the CPU's SIMD level and threads. */
  adapter: string;
  /**
   * Features of the device that are used: on the CPU `simd128` or `relaxed-simd`, on a GPU `subgroups` and
   * `packed_4x8_integer_dot_product`.
   */
  features: string[];
  /** Features that the GPU offers but computes wrong values with, so that they are not used: `subgroups: why`. */
  demoted: string[];
  /** The tuning of WebGPU's kernels, as `Engine.tune` writes it; null on the CPU. */
  tuning: string | null;
  /** The target that the plan was made for, as `rlx inspect --target` takes it. */
  target: string;
  /** Why `auto` did not take WebGPU; null if it did, or the device was not `auto`. */
  fallbackReason: string | null;
  model: { name: string; architecture: string; contextLength: number };
  /** Most tokens of prompt and answer together. */
  contextLength: number;
  kv: KvType;
  activations: 'f32' | 'int8';
  /** Bytes on the device. */
  weightBytes: number;
  stateBytes: number;
  arenaBytes: number;
  /** The sum, on WebGPU with the kernels' own buffers: the estimate that was made before loading. */
  memoryBytes: number;
  /** LIR fingerprints, as `rlx inspect --stage lir --json` prints them. */
  fingerprint: { prefill: string; decode: string };
  /** GPU dispatches of one decode step; 0 on the CPU. */
  dispatchesPerToken: number;
  /** Speed of the last finished answer, tokens per second; null before the first. */
  prefillTokensPerSecond: number | null;
  decodeTokensPerSecond: number | null;
  /** Prompt tokens of the last call that were in the caches already. */
  reusedTokens: number;
}

/** Bytes that an engine holds now. */
export interface EngineMemory {
  /** On the GPU; null on the CPU. */
  gpu: GpuMemory | null;
  /**
   * Of the wasm module, which on the CPU has the weights too. It never shrinks; engines with several threads in one
   * thread of JavaScript share one.
   */
  wasm: number;
}

/** Bytes of GPU buffers, by use. */
export interface GpuMemory {
  weights: number;
  /** What a step computes and the next one overwrites. */
  arena: number;
  /** Key-value caches and other states, constants, and what is read back. */
  other: number;
}

/** Details of an `RlxError`: about missing memory, or an input that does not fit. */
export type ErrorDetails = MemoryDetails | TensorDetails;

/** Details of `out_of_memory`, if the model's needs are known. */
export interface MemoryDetails {
  /** Bytes that are needed. */
  needed: number;
  /** Bytes that are available; `null` if that is unknown. */
  available: number | null;
  /** The longest context to try; `null` if a shorter one would not help. */
  contextLength: number | null;
}

/** Details of `usage`, for an input of a session. */
export interface TensorDetails {
  input: string;
  /** The sizes that were given. */
  given: number[];
  /** The type that is wanted, symbols included: `tensor<BATCHxSEQxu32>`. */
  wanted: string;
}

/** The kinds of `RlxError`, with the same names as in Rust and in the command line's JSON. */
export type ErrorCode =
  | 'usage' | 'bad_file' | 'unsupported' | 'bad_graph' | 'wrong_stage' | 'device_unavailable'
  | 'device_lost' | 'out_of_memory' | 'context_full' | 'io' | 'cancelled' | 'disposed'
  | 'check_failed' | 'internal';
