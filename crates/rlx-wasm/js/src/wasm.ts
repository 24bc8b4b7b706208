/**
 * What JavaScript needs of the wasm module, and what it gives it.
 *
 * Faults are thrown as JSON text, `{"code", "what", "at", "hint"}`. No method keeps a borrow of
 * the engine across an await, so every method may be called while a promise of another is
 * pending (`cancel` and `dispose` are). No view of wasm memory lives across a call: memory may
 * grow in any of them.
 */

import type { GpuHost } from './gpu_host.js';
import type { ChatMessage, EngineInfo, FinishReason, KvType } from './types.js';

/** The clock and the scheduler, which the sans-IO core has not. */
export interface Platform {
  /** Milliseconds, monotonic. */
  now(): number;
  /** Resolves after the page has had its turn; the CPU executor awaits it every 50 ms or sooner. */
  yieldToPage(): Promise<void>;
}

/** The constructor's first argument, as JSON. */
export interface WasmOptions {
  device: 'webgpu' | 'cpu';
  /** Why `auto` came to the CPU; null otherwise. */
  fallbackReason: string | null;
  contextLength: number | null;
  kv: KvType | null;
  activations: 'f32' | 'int8' | null;
  /** As `load` was asked for; null: as `tunings` says of this adapter, if it does. */
  tuning?: string | null;
  tunings?: { [key: string]: string };
  /** What `found` told of earlier loads: verdicts by kernels. */
  checks?: { [kernels: string]: string };
  /** Of the CPU, the page's own included; more than one only in a module whose workers have joined. */
  threads: number;
  /** For checks: `done` carries the sampled ids and the logits after the prompt. */
  logits?: boolean;
}

/** `start`'s argument, as JSON. Every number has been checked against its range. */
export interface WasmRequest {
  messages: readonly ChatMessage[];
  /** For checks: the prompt as ids, instead of messages. */
  prompt_ids?: readonly number[];
  /** null: what is left of the context. */
  max_tokens: number | null;
  /** null: the file's default, or 0.7. */
  temperature: number | null;
  top_p: number;
  top_k: number;
  min_p: number;
  repetition_penalty: number;
  frequency_penalty: number;
  presence_penalty: number;
  seed: number;
  stop: readonly string[];
}

/** What `nextEvent` answers, as JSON. After `done` there is no further event. */
export type WasmEvent =
  /** One or more tokens' text; never half a character, never what may begin a stop text. */
  | { type: 'text'; text: string }
  | { type: 'done'; reason: FinishReason | 'cancelled'; promptTokens: number; completionTokens: number; tokens?: number[]; logits?: number[] };

/**
 * A row of the placement table: four numbers in a Float64Array.
 *
 * `fileOffset`  first byte in the shard; rows are in ascending order and do not overlap
 * `bytes`       how many
 * `target`      a GPU buffer's id, or `PUT`
 * `offset`      where in the buffer: a multiple of 4, with room for `bytes` rounded up to 4 (the
 *               padding is written as zeros); 0 for `PUT`
 */
export const PLACEMENT_COLUMNS = 4;
/** Target: `put` takes the bytes: all of them on the CPU, on a GPU what the host prepares, such as `rope_freqs`. */
export const PUT = -1;

/** What takes a model's files: headers, then tensor bytes. */
export interface WasmLoading {
  /**
   * Takes the next bytes of shard number `shard` (in the caller's order); true when its header
   * is complete, and the rest of the chunk is then ignored. `fileBytes` is -1 when the source
   * does not know its length.
   */
  pushHeader(shard: number, name: string, fileBytes: number, chunk: Uint8Array): boolean;
  /** With all headers in: orders shards, compiles, allocates; resolves when the device said yes. */
  open(): Promise<void>;
  placements(shard: number): Float64Array;
  /** Bytes of a `PUT` row, in order; `fileOffset` is that of the first byte given. */
  put(shard: number, fileOffset: number, bytes: Uint8Array): void;
  /** With all bytes placed: makes the constants, waits for pipelines and for the check of the GPU. */
  finishLoad(): Promise<void>;
  /** What is under way submits nothing more, and ends. */
  cancel(): void;
  /** What runs where, as JSON; valid after `open`. */
  info(): string;
  /** Frees every id and byte. Called once, when no promise is pending. */
  dispose(): void;
}

/** One language model on one device. */
export interface WasmEngine extends WasmLoading {
  /** Measures shapes of kernels, with no model there: `{"key", "tuning"}` as JSON. `progress` gets 0 to 1. */
  tune(progress: (done: number) => void): Promise<string>;
  /** Whether `finishLoad` compares the GPU with the CPU first: valid after `open`. */
  checks(): boolean;
  /** What the check found, once: `{"kernels", "verdict"}` as JSON; undefined where nothing was checked. */
  found(): string | undefined;
  /** Tokens whose rows the caches hold, or held when the device was lost. */
  cached(): Uint32Array;
  /** Reads tokens into the caches, for the next call to find; between calls, and not while one runs. */
  restore(tokens: Uint32Array): Promise<void>;
  /** Renders and tokenizes; throws what is wrong with the request. One call at a time. */
  start(requestJson: string): void;
  /** The next event of the running call, as `WasmEvent` JSON. */
  nextEvent(): Promise<string>;
  /** The running call ends with `done`, reason `cancelled`; `restore` resolves. */
  cancel(): void;
  /** `EngineInfo` as JSON; valid after `open`. */
  info(): string;
}

/** What `EngineInfo` is made of. */
export type WasmInfo = EngineInfo;

/** The module's exports as the rest of the package uses them. */
export interface WasmModule {
  /** How many there are for an engine on the CPU. */
  threads: number;
  create(optionsJson: string, platform: Platform, gpu: GpuHost | null): WasmEngine;
}
