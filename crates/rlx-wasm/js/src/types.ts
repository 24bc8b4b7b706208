/** The public types of the package, written by hand; those of OpenAI's shapes stand in `openai/types.ts`. */

import type { RlxError } from './error.js';

import type { KeepingOptions } from './models_types.js';
import type { DeviceReport } from './report_types.js';

/**
 * Names of the web that these declarations use. Where the compiler's libraries or `@webgpu/types` have them, nothing
 * is added; elsewhere they say nothing.
 */
declare global {
  interface GPU {}
  interface GPUDevice {}
  interface GPUBuffer {}
  interface Blob {}
  interface FileSystemFileHandle {}
  interface FileSystemDirectoryHandle {}
  interface Worker {}
  interface MessagePort {}
  interface SymbolConstructor {
    readonly dispose: unique symbol;
    readonly asyncDispose: unique symbol;
  }
  namespace WebAssembly {
    interface Module {}
  }
}

/**
 * Which executor runs the model. `auto` takes WebGPU if it works and is faster, else the CPU: also if a load fails on
 * the GPU because of missing memory, a lost device or a rejected kernel, or if the processor only simulates a GPU.
 * `info().fallbackReason` says why, and `info().comparison` what was timed.
 */
export type DeviceChoice = 'auto' | 'webgpu' | 'cpu';

/**
 * A file: its address; outside a page also its path; the file itself, or its handle; or a stream of its bytes, which
 * is read once, so that neither `reload` nor another device can read it again.
 */
export type FileSource = string | URL | Blob | FileSystemFileHandle | ReadableStream<Uint8Array>;

/** A model: a file, an address that stands for several, a directory, or a list of all its files. */
export type ModelSource =
  | FileSource | FileSystemDirectoryHandle | readonly (string | URL)[] | readonly Blob[] | readonly FileSystemFileHandle[];

/** A build of the wasm module: its address, its bytes, or the compiled module. */
export type WasmSource = string | URL | ArrayBuffer | ArrayBufferView<ArrayBuffer> | WebAssembly.Module;

/** An activation type in matmuls of packed weights. `int16` is for WebGPU alone: a page's CPU has no kernels for it. */
export type ActivationType = 'f32' | 'int8' | 'int16';
/** One type, or those of decode and of prompts. */
export type ActivationTypes = ActivationType | `${ActivationType}/${ActivationType}`;
/** Element types that the key-value cache may have. */
export type KvType = 'f32' | 'f16' | 'q8_0';

/** What to load and where to run it. */
export interface LoadOptions extends KeepingOptions {
  /**
   * The model: one GGUF file or all its shards. Shards may come in any order; the files say which is which. The
   * address of one shard alone (`…-00001-of-00005.gguf`) stands for all.
   *
   * Or a model of the Hugging Face Hub: `hf:owner/repository`, which may go on with `:Q4_K_M` (a quantisation) or
   * `:file.gguf`, and with `@revision`. By default it is Q4_K_M of a repository of GGUF files, or the nearest to it,
   * else the repository's folder of safetensors.
   *
   * Or a directory: its handle, or, outside a page, its path. It is searched as a repository is.
   *
   * Or a folder of safetensors, as transformers writes it: its address with `/` at its end, or a list of its files
   * (addresses, or `File`s, also those of a chosen directory). It has `config.json`; `tokenizer.json` or
   * `tokenizer.model`; `model.safetensors`, or the files that `model.safetensors.index.json` names; and may have
   * `tokenizer_config.json`, `generation_config.json`, `chat_template.jinja` or `chat_template.json`, and for
   * conversations with tools `additional_chat_templates/tool_use.jinja`. In a list they are known by these names, and
   * others are not read.
   */
  model: ModelSource;
  /** Default `auto`. If there is no WebGPU, `webgpu` is an error; it never falls back to the CPU. */
  device?: DeviceChoice;
  /** Most tokens of prompt and answer together. Default: as the model was trained, at most 4096. */
  contextLength?: number;
  /** Positions of a block, 2 to 4096, of a model that fills blocks. Default: as many as it was trained with. */
  blockLength?: number;
  /**
   * Bytes on the device for the rows of conversations besides the current one, so that a call which goes on with one of
   * them computes only what is new. A token has `info().stateBytes / info().contextLength` bytes, about. Default 32 MiB;
   * 0: none.
   */
  conversationBytes?: number;
  /** A WebGPU entry point to use instead of `navigator.gpu`, such as npm `webgpu` in Node. */
  gpu?: GPU;
  /** Whether to store shards from addresses in the browser, for the next visit. Default true. */
  cache?: boolean;
  /**
   * Element type of the key-value cache. Default: the device's, see `info().kv`. `q8_0` (blocks of 32, 34
   * bytes each) takes about half the memory of `f16` and needs heads of whole blocks, on WebGPU of whole 64.
   */
  kv?: KvType;
  /**
   * Activation type in matmuls of packed weights, or two of them, for decode and for prompts: `int16/int8`. Default: the
   * device's, see `info().activations`; a GPU is timed before its first model of a kind, and has f32 where integers
   * are not faster: see `info().activationTimes`. A type that the device's kernels do not have is an error.
   */
  activations?: ActivationTypes;
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
   * imports `rlx-wasm/worker`, or the address of such a module. `gpu`, `fetch` and
   * a stream need the calling thread.
   */
  worker?: boolean | Worker | URL | string;
  /**
   * `rlx.wasm` or `rlx-relaxed.wasm`. Default: the best one for this browser, next to the package's modules. A build
   * that is given here has one thread.
   */
  wasm?: WasmSource;
  /**
   * `rlx-grammar.wasm`, which holds answers to a form. Default: the one next to the package's modules, fetched when a
   * call asks for a form.
   */
  grammarWasm?: WasmSource;
  /** What requests the model's files. Default: the global `fetch`. */
  fetch?: typeof fetch;
  /**
   * Headers of the requests for the model's files, such as `{ authorization: 'Bearer …' }`. They go to the origin of
   * the model's first address alone, also if it redirects elsewhere, and are not stored. A browser hides where a
   * redirect leads: there it is followed with `authorization` alone, which browsers take off at another origin.
   */
  headers?: { readonly [name: string]: string };
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
export interface TuneOptions extends Pick<LoadOptions, 'gpu' | 'wasm' | 'signal'> {
  /**
   * Also measure how fast memory is copied and which forms of products are faster, for a report that others with such a
   * device can use. It takes about twice as long, and up to 300 MB of the GPU's memory for a while. Default false.
   */
  report?: boolean;
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
  /** What was measured, if that was asked for. */
  report?: DeviceReport;
}

/** Options of `Engine.copyRate`. */
export type CopyRateOptions = Pick<LoadOptions, 'gpu' | 'signal'>;

/** The result of `Engine.copyRate`. */
export interface CopyRate {
  /** The adapter that was measured. */
  adapter: string;
  /** Bytes that a kernel copies in a second, reads and writes counted, as in a `DeviceReport`. */
  bytesPerSecond: number;
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

/** What can be asked of a model that calls functions, beside `tool_choice: 'auto'`. */
export interface ModelTools {
  /** A call can be forced: `tool_choice` may be `required` or a function. */
  required: boolean;
  /** Calls can be held to their schemas, and to one: `strict: true`, `parallel_tool_calls: false`. */
  strict: boolean;
}

/** The device and the model, with measurements. */
export interface EngineInfo {
  device: 'webgpu' | 'cpu';
  /** The GPU adapter's name, or the CPU's SIMD level and threads. */
  adapter: string;
  /**
   * Features of the device that are used: on the CPU `simd128` or `relaxed-simd`, on a GPU `subgroups`,
   * `packed_4x8_integer_dot_product` and `shader-f16`.
   */
  features: string[];
  /** Features that the GPU offers but computes wrong values with, so that they are not used: `subgroups: why`. */
  demoted: string[];
  /** Lanes of a GPU's subgroup that kernels count on, and how they are known; null where they use none. */
  subgroups: string | null;
  /** The tuning of WebGPU's kernels, as `Engine.tune` writes it; null on the CPU. */
  tuning: string | null;
  /** The target that the plan was made for, as `rlx inspect --target` takes it. */
  target: string;
  /** Why `auto` did not take WebGPU; null if it did, or the device was not `auto`. */
  fallbackReason: string | null;
  /** How `auto` chose between a GPU and the CPU; null if there was nothing to choose. */
  comparison: DeviceComparison | null;
  model: {
    name: string;
    architecture: string;
    contextLength: number;
    /** Whether the model calls functions: what its chat template does with `tools`; null where a call with them is refused. */
    tools: ModelTools | null;
    /** Whether its answers may have thoughts apart from their text, as `reasoning_content`. */
    reasoning: boolean;
  };
  /** Most tokens of prompt and answer together. */
  contextLength: number;
  kv: KvType;
  activations: ActivationTypes;
  /** Why these, where the GPU was timed for them; null on the CPU, and where an option names the types. */
  activationTimes: ActivationTimes | null;
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
  /** Milliseconds from when the last finished answer was begun to its first token; null before the first. */
  firstTokenMs: number | null;
  /** Speed of the last finished answer, tokens per second; null before the first. */
  prefillTokensPerSecond: number | null;
  decodeTokensPerSecond: number | null;
  /** Prompt tokens of the last call that were in the caches already. */
  reusedTokens: number;
}

/**
 * What a GPU was timed with before a model was loaded: steps of a few of its layers, in milliseconds, first with the
 * recommended type, then with f32. Floats are more faithful, so integers are taken where they gain 5 %.
 */
export interface ActivationTimes {
  /** Whether this load measured it, or an earlier one of this origin. */
  from: 'measured' | 'remembered';
  recommended: ActivationTypes;
  /** Null where f32 is recommended. */
  decodeMs: [number, number] | null;
  /** Of a prompt of 128 tokens. */
  promptMs: [number, number] | null;
}

/** How `auto` chose between a GPU and the CPU. */
export interface DeviceComparison {
  /**
   * Tokens of an answer per second that the model would make on each, by the bytes it reads: a few of its layers were
   * timed. Null if that was not possible.
   */
  webgpuTokensPerSecond: number | null;
  cpuTokensPerSecond: number | null;
  /** Whether this load measured it, or an earlier one of this origin; null if it was not possible. */
  from: 'measured' | 'remembered' | null;
  /** One sentence: why this device was taken. */
  reason: string;
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

/** Options of `Engine.estimate`: those of `load` that its answer depends on. */
export type EstimateOptions = Pick<
  LoadOptions, 'model' | 'device' | 'contextLength' | 'blockLength' | 'conversationBytes' | 'gpu' | 'cache' | 'kv' | 'activations' | 'wasm' | 'fetch' | 'headers' | 'signal'
>;

/** What a model would need. */
export interface Estimate {
  /** The device that `load` would take, as far as is known without timing it; with `auto`, why it is not the GPU. */
  device: 'webgpu' | 'cpu';
  fallbackReason: string | null;
  /** Whether the device can have it. Of a GPU it is not known how much memory it has, only what it binds. */
  fits: boolean;
  /** Why not, with the longest context that would fit. */
  refusal?: Error;
  /** Bytes of the files of weights, and of those of them that are not stored whole; null if a server does not say. */
  fileBytes: number | null;
  downloadBytes: number | null;
  /** Positions of the caches. */
  contextLength: number;
  /** Bytes on the device: of weights, of caches, and of everything; and the most while it loads. */
  weightBytes: number;
  stateBytes: number;
  memoryBytes: number;
  loadingBytes: number;
  /** Bytes that the device has; null if that is unknown. */
  availableBytes: number | null;
}

/** The kinds of `RlxError`, with the same names as in Rust and in the command line's JSON. */
export type ErrorCode =
  | 'usage' | 'bad_file' | 'unsupported' | 'bad_graph' | 'wrong_stage' | 'device_unavailable'
  | 'device_lost' | 'out_of_memory' | 'context_full' | 'io' | 'cancelled' | 'disposed'
  | 'check_failed' | 'internal';
