/**
 * The public surface of the package. Everything a page may rely on is written here by hand;
 * the chat types have the shapes of OpenAI's chat completions.
 */

/**
 * Which executor runs the model. `auto` takes WebGPU where it works and the CPU elsewhere: also where a load fails
 * on the GPU for want of memory, by a lost device or by a refused kernel. `info().fallbackReason` says why.
 */
export type DeviceChoice = 'auto' | 'webgpu' | 'cpu';

/** Element types that the key-value cache may have. */
export type KvType = 'f32' | 'f16' | 'q8_0';

/** What to load and where to run it. */
export interface LoadOptions {
  /**
   * The model: the addresses of one GGUF file or of all its shards, or the files themselves.
   * Shards may come in any order; the files say which is which.
   */
  model: string | URL | Blob | readonly (string | URL)[] | readonly Blob[];
  /** Default `auto`. Asking for `webgpu` where there is none is an error, never the CPU. */
  device?: DeviceChoice;
  /** Tokens of prompt and answer together. Default: what the model was trained for, at most 4096. */
  contextLength?: number;
  /** A WebGPU entry point to use instead of `navigator.gpu`: npm `webgpu` in Node, for one. */
  gpu?: GPU;
  /** Keep shards that come by address in the browser's storage for the next visit. Default true. */
  cache?: boolean;
  /**
   * Element type of the key-value cache. Default: the device's, see `info().kv`. `q8_0` (blocks of 32, 34
   * bytes each) takes about half the memory of `f16` and needs heads of whole blocks, on WebGPU of whole 64.
   */
  kv?: KvType;
  /** Element type of matmul inputs against packed weights. Default: the device's. */
  activations?: 'f32' | 'int8';
  /**
   * How WebGPU's kernels are shaped: what `Engine.tune` found on this device. Default: what it kept in
   * `localStorage`, which workers and Node have not; else the usual shapes.
   */
  tuning?: string;
  /**
   * Threads of the CPU, the page's own included, 1 to 64. Default: one a core, at most 8. More than
   * one needs a page that is cross-origin isolated: elsewhere there is one, see `info().adapter`.
   */
  threads?: number;
  /**
   * Address of `rlx.wasm` or `rlx-relaxed.wasm`. Default: beside the package's modules, the one that
   * this browser runs. A build at an address of its own has one thread.
   */
  wasmUrl?: string | URL;
  /** Called as bytes arrive, at most once a chunk. What it throws is reported as uncaught, and the load goes on. */
  onProgress?: (progress: LoadProgress) => void;
  /** Called with what a user may want to know: offline, no room for the cache, a GPU that computes wrong values. It may throw as `onProgress` may. */
  onNotice?: (notice: Notice) => void;
  /** Aborting it rejects `load` with code `cancelled` and frees everything. */
  signal?: AbortSignal;
}

/** What `Engine.tune` may be given. */
export interface TuneOptions extends Pick<LoadOptions, 'gpu' | 'wasmUrl' | 'signal'> {
  /** Called with how much is done, from 0 to 1. */
  onProgress?: (done: number) => void;
}

/** What `Engine.tune` found. */
export interface Tuned {
  /** The adapter that it was measured on. */
  adapter: string;
  /** What `LoadOptions.tuning` takes. */
  tuning: string;
  /** Whether it is kept in `localStorage`, so that loads of this origin use it by themselves. */
  kept: boolean;
}

/** What `reload` may be given; all else is as it was at `load`. */
export type ReloadOptions = Pick<LoadOptions, 'onProgress' | 'signal'>;

/** How far a load is. */
export interface LoadProgress {
  /**
   * `headers`: reading what the shards hold; `compile`: planning; `weights`: tensor bytes; `check`: the GPU's kernels
   * are compared with the CPU's, where that was not done before; `ready`, after a reload's tokens too.
   */
  phase: 'headers' | 'compile' | 'weights' | 'check' | 'ready';
  /** Bytes of the shards that have arrived and been placed. */
  loadedBytes: number;
  /** Bytes of all shards; absent while a server has not said. */
  totalBytes?: number;
  /** Where the bytes come from; `mixed` when shards differ. */
  from: 'network' | 'cache' | 'file' | 'mixed';
}

/** Something worth showing that is not a fault. */
export interface Notice {
  code: 'offline' | 'cache_unavailable' | 'cache_full' | 'kernels_demoted';
  /** One sentence. */
  message: string;
}

/** What runs, as measured by what ran. */
export interface EngineInfo {
  device: 'webgpu' | 'cpu';
  /** The GPU adapter's name, or the CPU's SIMD level and threads. */
  adapter: string;
  /**
   * What of the device is used: on the CPU `simd128` or `relaxed-simd`, on a GPU `subgroups` and
   * `packed_4x8_integer_dot_product`.
   */
  features: string[];
  /** What a GPU says it has and computes wrong values with, so that it is not used: `subgroups: why`. */
  demoted: string[];
  /** How WebGPU's kernels are shaped, as `Engine.tune` writes it; null on the CPU. */
  tuning: string | null;
  /** The target that the plan was made for, as `rlx inspect --target` takes it. */
  target: string;
  /** Why `auto` did not take WebGPU; null when it did or was not asked. */
  fallbackReason: string | null;
  model: { name: string; architecture: string; contextLength: number };
  /** Tokens of prompt and answer together that this engine holds. */
  contextLength: number;
  kv: KvType;
  activations: 'f32' | 'int8';
  /** Bytes on the device. */
  weightBytes: number;
  stateBytes: number;
  arenaBytes: number;
  /** All of it, and on WebGPU what kernels have besides: the estimate that was made before loading. */
  memoryBytes: number;
  /** LIR fingerprints, as `rlx inspect --stage lir --json` prints them. */
  fingerprint: { prefill: string; decode: string };
  /** GPU dispatches of one decode step; 0 on the CPU. */
  dispatchesPerToken: number;
  /** Speed of the last finished answer, tokens per second; null before the first. */
  prefillTokensPerSecond: number | null;
  decodeTokensPerSecond: number | null;
  /** Prompt tokens of the last call that were still in the cache. */
  reusedTokens: number;
}

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

/** Sampling and limits of one call. */
export interface ChatRequest {
  messages: readonly ChatMessage[];
  stream?: boolean;
  /** Ignored: an engine has one model. Accepted so that code for a server runs unchanged. */
  model?: string;
  /** Tokens of the answer, 1 or more. Default: what is left of the context. */
  max_tokens?: number;
  /** 0 to 2; 0 is greedy. Default: the file's, or 0.7. */
  temperature?: number;
  /** Above 0, at most 1. Default 1 (off). */
  top_p?: number;
  /** Whole, 0 or more. Default 0 (off). */
  top_k?: number;
  /** 0 to 1. Default 0 (off). */
  min_p?: number;
  /** Above 0, at most 2. Default 1 (off). */
  repetition_penalty?: number;
  /** -2 to 2. Default 0 (off). */
  frequency_penalty?: number;
  /** -2 to 2. Default 0 (off). */
  presence_penalty?: number;
  /** Whole, 0 to 2^53 - 1. Equal seeds give equal answers. Default: random. */
  seed?: number;
  /** Up to 16 texts, none empty, that end the answer and are not part of it. */
  stop?: string | readonly string[];
  /** Stops the answer, or takes a waiting call out of the queue; see `create`. */
  signal?: AbortSignal;
}

export type FinishReason = 'stop' | 'length';

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
}

/** One step of a streamed answer. The last one has `finish_reason` and `usage`. */
export interface ChatCompletionChunk {
  id: string;
  object: 'chat.completion.chunk';
  /** Seconds since 1970. */
  created: number;
  model: string;
  choices: [{
    index: 0;
    delta: { role?: 'assistant'; content?: string };
    finish_reason: FinishReason | null;
  }];
  usage?: Usage;
}

/** A whole answer. */
export interface ChatCompletion {
  id: string;
  object: 'chat.completion';
  /** Seconds since 1970. */
  created: number;
  model: string;
  choices: [{
    index: 0;
    message: { role: 'assistant'; content: string };
    finish_reason: FinishReason;
  }];
  usage: Usage;
}

/**
 * Starts an answer. Calls run one at a time, in the order they were made.
 *
 * With `stream: true` the promise resolves when the call's turn has come, to chunks; leaving the
 * loop early stops the answer. Otherwise it resolves to the whole answer.
 *
 * Aborting `signal` ends the call with an `RlxError` of code `cancelled` (its `name` is
 * `AbortError`, as the web has it): chunks already received stay valid, and `error.text` has the
 * text so far. The next call works, and reuses what both have in common.
 */
export interface Completions {
  create(request: ChatRequest & { stream: true }): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
  create(request: ChatRequest & { stream?: false }): Promise<ChatCompletion>;
  create(request: ChatRequest): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>>;
}

/** Numbers of an `RlxError`: of memory that is missing, or of a tensor that an entry does not take. */
export type ErrorDetails = MemoryDetails | TensorDetails;

/** Of `out_of_memory`, where it is known what a model needs. */
export interface MemoryDetails {
  /** Bytes that are needed. */
  needed: number;
  /** Bytes that there are; `null` where nobody knows. */
  available: number | null;
  /** The longest context to try; `null` where a shorter one would not help. */
  contextLength: number | null;
}

/** Of `usage`, for an input of a session. */
export interface TensorDetails {
  input: string;
  /** The sizes that were given. */
  given: number[];
  /** The type that is wanted, symbols included: `tensor<BATCHxSEQxu32>`. */
  wanted: string;
}

/** What an `RlxError` is about. The same names as in Rust and in the command line's JSON. */
export type ErrorCode =
  | 'usage' | 'bad_file' | 'unsupported' | 'bad_graph' | 'wrong_stage' | 'device_unavailable'
  | 'device_lost' | 'out_of_memory' | 'context_full' | 'io' | 'cancelled' | 'disposed'
  | 'check_failed' | 'internal';
