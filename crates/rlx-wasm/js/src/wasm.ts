/**
 * The interface between JavaScript and the wasm module.
 *
 * Errors are thrown as JSON text, `{"code", "what", "at", "hint"}`. No method keeps a borrow of
 * the engine across an await, so every method may be called while a promise of another is
 * pending (`cancel` and `dispose` are). No view of wasm memory lives across a call: memory may
 * grow in any of them.
 */

import type { RlxError } from './error.js';
import type { GpuHost } from './gpu_host.js';
import type { TemplateMessage } from './openai/messages.js';
import type { ActivationTimes, ActivationTypes, EngineInfo, Estimate, KvType } from './types.js';

/** The clock and the scheduler, which the core does not have. */
export interface Platform {
  /** Milliseconds, monotonic. */
  now(): number;
  /** Resolves after the page has had its turn; the CPU executor awaits it every 50 ms or sooner. */
  yieldToPage(): Promise<void>;
}

/** The constructor's first argument, as JSON. */
export interface WasmOptions {
  device: 'webgpu' | 'cpu';
  /** Why `auto` chose the CPU; null otherwise. */
  fallbackReason: string | null;
  contextLength: number | null;
  kv: KvType | null;
  activations: ActivationTypes | null;
  /** The tuning that `load` was given; null: the one in `tunings` for this adapter, if there is one. */
  tuning?: string | null;
  tunings?: { [key: string]: string };
  /** Stored verdicts by kernels, as `found` returned them in earlier loads. */
  checks?: { [kernels: string]: string };
  /** Stored times of forms, as `timed` returned them in earlier loads. */
  times?: { [key: string]: string };
  /** Threads of the CPU, including the page's own; more than one only in a module whose workers have joined. */
  threads: number;
  /** For RLX's own checks: whether `done` has the sampled ids and the logits after the prompt. */
  logits?: boolean;
}

/** Those of an engine, besides. */
export interface WasmEngineOptions {
  /** Positions of a block; null: as many as the model was trained with. */
  blockLength: number | null;
  /** Bytes for the rows of conversations besides the current one. */
  conversationBytes: number;
}

/** `start`'s argument, as JSON. Every number has been checked against its range. */
export interface WasmRequest {
  messages: readonly TemplateMessage[];
  /** What else the template is told. */
  variables?: { readonly [name: string]: unknown };
  /** Whether control tokens are told, as events of their own. */
  controls: boolean;
  /** The prompt as ids, instead of messages. */
  prompt_ids?: readonly number[];
  /** What the answer goes on from when the context is full: it stands before the newest tokens. Without it the answer ends. */
  slide_ids?: readonly number[];
  /** Whether both are to be made of the messages or the prompt, so that they fit; the module does not read it. */
  slides?: boolean;
  /** null: the rest of the context. */
  max_tokens: number | null;
  /** null: the file's default, or 0.7. */
  temperature: number | null;
  top_p: number;
  top_k: number;
  min_p: number;
  repetition_penalty: number;
  frequency_penalty: number;
  presence_penalty: number;
  /** Token ids with what is added to their logits. */
  logit_bias: readonly (readonly [number, number])[];
  /** How many of the likeliest tokens are told beside each; null: no token's probability is. */
  logprobs: number | null;
  seed: number;
  /** null: as the model has it. The four are for models that fill blocks. */
  steps: number | null;
  threshold: number | null;
  editing_threshold: number | null;
  max_post_steps: number | null;
  stop: readonly string[];
  /** Whether tokens that end an answer are tokens like others. */
  ignore_eos: boolean;
}

/** A token: its id, the logarithm of its probability (null where that is 0), its bytes. */
export type WasmLogprob = readonly [id: number, logprob: number | null, bytes: readonly number[]];

/** How likely a token of the answer was, and the likeliest ones in its place. */
export interface WasmLikely {
  chosen: WasmLogprob;
  top: readonly WasmLogprob[];
}

/**
 * The answer of `nextEvent`, as JSON. After `done` there is no further event. `logprobs`, where a call asks for them, are
 * those of the tokens since the last event.
 */
export type WasmEvent = { logprobs?: readonly WasmLikely[] } & WasmOwnEvent;

/** How fast an answer was, as `info` has it. */
export type WasmSpeed = Pick<EngineInfo, 'firstTokenMs' | 'prefillTokensPerSecond' | 'decodeTokensPerSecond'>;

type WasmOwnEvent =
  /** The text of one or more tokens; never half a character, never the possible beginning of a stop text. */
  | { type: 'text'; text: string }
  /** A control token, by its name. */
  | { type: 'control'; text: string }
  | { type: 'done'; reason: 'stop' | 'length' | 'cancelled'; promptTokens: number; completionTokens: number; speed?: WasmSpeed; tokensPerPass?: number[]; leftOut?: number; tokens?: number[]; logits?: number[] };

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
/** The target of bytes for `put`: all bytes on the CPU; on a GPU those that the host prepares, such as `rope_freqs`. */
export const PUT = -1;

/** Takes a model's files: headers, then tensor bytes. */
export interface WasmLoading {
  /** Before `open`: a small file of a model's folder, by its name there, or a session's `graph`. Errors name it `at`. */
  text(name: string, at: string, bytes: Uint8Array): void;
  /** The names of the files of weights that the text of a folder's index lists. */
  index(at: string, bytes: Uint8Array): string[];
  /**
   * Takes the next bytes of shard number `shard` (in the caller's order); true when its header
   * is complete, and the rest of the chunk is then ignored. `fileBytes` is -1 when the source
   * does not know its length.
   */
  pushHeader(shard: number, name: string, fileBytes: number, chunk: Uint8Array): boolean;
  /** Call after all headers: orders shards, compiles, allocates; resolves when the device has the memory. */
  open(): Promise<void>;
  placements(shard: number): Float64Array;
  /** Bytes of a `PUT` row, in order; `fileOffset` is that of the first byte given. */
  put(shard: number, fileOffset: number, bytes: Uint8Array): void;
  /** Call after all bytes: makes the constants, waits for pipelines and for the GPU's self-test. */
  finishLoad(): Promise<void>;
  /** Cancels the work in progress: it submits nothing more, and ends. */
  cancel(): void;
  /** What runs where, as JSON; valid after `open`. */
  info(): string;
  /** Frees every id and byte. Called once, when no promise is pending. */
  dispose(): void;
}

/** A language model on a device. */
export interface WasmEngine extends WasmLoading {
  /** Call after all headers, in place of `open`: `WasmEstimate` as JSON. */
  estimate(): Promise<string>;
  /**
   * Call after all headers, before `open`: the device with the version, the class of models whose steps take about as
   * long, and how many times as long a step takes as one of `trial`: `WasmExcerpt` as JSON.
   */
  excerpt(): string;
  /** Runs steps of a few of the model's layers, at most 256, to be timed. The first call puts them on the device. */
  trial(steps: number): Promise<void>;
  /** Resolves to the error with which its instance stopped, if it ever does. */
  readonly ended: Promise<RlxError>;
  /** Bytes of the instance's memory, which never shrinks. */
  memoryBytes(): number;
  /** Measures the fastest tuning, without a model: `WasmTuned` as JSON. `progress` gets 0 to 1. */
  tune(progress: (done: number) => void): Promise<string>;
  /** Whether `finishLoad` runs a self-test of the GPU first; valid after `open`. */
  checks(): boolean;
  /** The verdict of the self-test, once: `{"kernels", "verdict"}` as JSON; undefined if none ran. */
  found(): string | undefined;
  /**
   * What `open` or `trial` has timed for the activation types: `WasmTimed` as JSON; undefined if it had nothing to time,
   * or knew it.
   */
  timed(): string | undefined;
  /** The tokens of a text; with `special` as the text of a whole prompt. Valid after `open`, as the next two. */
  tokenize(text: string, special: boolean): Uint32Array;
  /** The tokens of the prompt that a call with these messages and variables has. */
  tokenizeMessages(requestJson: string): Uint32Array;
  /** The text of the chat template, of a conversation with tools or without; empty if there is none that can be read. */
  template(tools: boolean): string;
  /** The text of tokens; control tokens have none. Throws for an id outside the vocabulary. */
  detokenize(ids: Uint32Array): string;
  /** Tokens whose rows are in the caches, or were when the device was lost. */
  cached(): Uint32Array;
  /** Computes the rows of tokens in the caches, for the next call to reuse. Not while a call runs. */
  restore(tokens: Uint32Array): Promise<void>;
  /**
   * Starts a call: renders and tokenizes the prompt; throws if the request is wrong. Gives the end of the prompt's text,
   * control tokens by their names. One call at a time. `constraint` says before each token which ones may come: see
   * `Constraint` in `openai/held.ts`.
   */
  start(requestJson: string, constraint?: (sampled: Uint32Array) => Uint32Array | undefined | string): string;
  /** The tokens: of each its kind (0 text, 1 control, 2 end of an answer), its length in four bytes, the lowest first, its bytes. */
  vocabulary(): Uint8Array;
  /** The next event of the running call, as `WasmEvent` JSON. */
  nextEvent(): Promise<string>;
  /** The running call ends with `done`, reason `cancelled`; `restore` resolves. */
  cancel(): void;
  /** `EngineInfo` as JSON; valid after `open`. */
  info(): string;
}

/** The module's part of `Estimate`. */
export interface WasmEstimate extends Pick<Estimate, 'contextLength' | 'weightBytes' | 'stateBytes' | 'memoryBytes' | 'loadingBytes' | 'availableBytes'> {
  /** An error as JSON has it. */
  refusal?: unknown;
}

/** What a device can be timed with. */
export interface WasmExcerpt {
  device: string;
  class: string;
  scale: number;
}

/** What a tuning run found on which device, and the times behind it. */
export interface WasmTuned extends Pick<EngineInfo, 'adapter' | 'features' | 'demoted' | 'subgroups' | 'target'> {
  key: string;
  /** RLX's version, and the number of its kernels. */
  version: string;
  kernels: number;
  tuning: string;
  /** Of each time its choice and the whole tuning: `short short=256x1 …`; and the milliseconds. */
  tried: string[];
  ms: number[];
}

/** Times of forms of products, as they are kept under `key`, and the faster types. */
export interface WasmTimed extends ActivationTimes {
  key: string;
  times: string;
  chosen: ActivationTypes;
}

/** The wasm module's part of `EngineInfo`. */
export type WasmInfo = Omit<EngineInfo, 'comparison' | 'model'> & { model: Omit<EngineInfo['model'], 'tools' | 'reasoning'> };

/** The module's exports as the rest of the package uses them. */
export interface WasmModule {
  /** How many threads an engine on the CPU has. */
  threads: number;
  create(optionsJson: string, platform: Platform, gpu: GpuHost | null): WasmEngine;
}
