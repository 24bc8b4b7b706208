/** What JavaScript needs of the module's build for networks that are no language models. */

import type { GpuHost } from './gpu_host.js';
import type { Instance } from './instance.js';
import type { SessionInfo } from './session_types.js';
import type { Platform, WasmLoading } from './wasm.js';

/** The constructor's first argument, as JSON, beside what every device is told. */
export interface WasmSessionOptions {
  /** Of an embedder; null of a session. */
  embed: { pooling: string | null; normalise: boolean | null; maxTokens: number | null } | null;
}

/** One network on one device. */
export interface WasmSession extends WasmLoading {
  /** Before `open`: the text `graph`, or a small file of a model's folder by its name there. `at` is what errors call it. */
  text(name: string, at: string, bytes: Uint8Array): void;
  /** `SessionEntry[]` as JSON; valid after `finishLoad`. */
  entries(): string;
  /** An input of the next `start`; the bytes are copied. */
  input(name: string, type: string, dims: Float64Array, bytes: Uint8Array): void;
  /** Runs an entry with the inputs that were given; throws what is wrong with them. One call at a time. */
  start(entry: string): void;
  /** `{ name, type, dims }[]` as JSON, when the run has answered. */
  outputs(): Promise<string>;
  /** The bytes of an output, once. */
  output(i: number): Uint8Array;
  /** Of an embedder: the width of a vector, and tokens of a text at most. */
  embedder(): Float64Array | undefined;
  /** Starts to make vectors of texts. One call at a time. */
  embed(texts: string[]): void;
  /** `{ over, done, truncated }` as JSON, when a batch is done. */
  batch(): Promise<string>;
  /** After the last batch: the vectors, one behind the other. */
  vectors(): Float32Array;
}

/** What `SessionInfo` is made of. */
export type WasmSessionInfo = SessionInfo;

/** The module as sessions use it. */
export interface GraphsModule {
  create(optionsJson: string, platform: Platform, gpu: GpuHost | null): WasmSession;
}

/** A session in an instance of the module. `onLeave` is called when it leaves it as another may find it. */
export function sessionIn(instance: Instance, make: () => WasmSession & { free(): void }, onLeave: () => void): WasmSession {
  const { call, wait, ...ends } = instance.bind(make, onLeave, 'the session was disposed');
  return {
    text: (name, at, bytes) => call((s) => s.text(name, at, bytes)),
    pushHeader: (shard, name, fileBytes, chunk) => call((s) => s.pushHeader(shard, name, fileBytes, chunk)),
    open: () => wait((s) => s.open()),
    placements: (shard) => call((s) => s.placements(shard)),
    put: (shard, fileOffset, bytes) => call((s) => s.put(shard, fileOffset, bytes)),
    finishLoad: () => wait((s) => s.finishLoad()),
    entries: () => call((s) => s.entries()),
    input: (name, type, dims, bytes) => call((s) => s.input(name, type, dims, bytes)),
    start: (entry) => call((s) => s.start(entry)),
    outputs: () => wait((s) => s.outputs()),
    output: (i) => call((s) => s.output(i)),
    embedder: () => call((s) => s.embedder()),
    embed: (texts) => call((s) => s.embed(texts)),
    batch: () => wait((s) => s.batch()),
    vectors: () => call((s) => s.vectors()),
    info: () => call((s) => s.info()),
    ...ends,
  };
}
