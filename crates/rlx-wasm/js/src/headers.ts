/** Has the wasm module look at a model's headers, without memory for the model. */

import { chooseDevice, opener } from './bring.js';
import type { DeviceOptions } from './bring.js';
import { throwIfAborted, toRlxError } from './error.js';
import { findModel, openModel } from './folder.js';
import type { ModelFiles } from './folder.js';
import type { GpuHost } from './gpu_host.js';
import { Integrity } from './integrity.js';
import { inParallel, readHeader, unlessBad } from './loader.js';
import { platform } from './platform.js';
import type { ShardReader } from './shard.js';
import type { Platform, WasmLoading, WasmOptions } from './wasm.js';

/** Who looks, and at what. */
interface Look<W extends WasmLoading> {
  files: ModelFiles;
  /** The wasm module. */
  module(): Promise<{ create(optionsJson: string, platform: Platform, gpu: GpuHost | null): W }>;
  /** Constructor options besides those of every device. */
  own: object;
  /** Call after all headers: what the module says of them, as JSON. */
  ask(wasm: W): Promise<string>;
  /** Gives the module what is in no file. */
  prepare?(wasm: W): void;
}

/** What was seen. */
interface Seen<W extends WasmLoading> {
  wasm: W;
  host: GpuHost | null;
  options: Omit<WasmOptions, 'threads'>;
  shards: readonly ShardReader[];
  /** What `ask` answered. */
  text: string;
}

/** Looks at the headers. `use` makes an answer of what was seen, and says by `keep` that module and device stay. */
export async function lookAtHeaders<W extends WasmLoading, T>(
  options: DeviceOptions, look: Look<W>, use: (seen: Seen<W>, keep: () => void) => T,
): Promise<T> {
  const { signal } = options;
  throwIfAborted(signal);
  const abort = new AbortController();
  const stop = () => abort.abort();
  signal?.addEventListener('abort', stop, { once: true });
  let shards: ShardReader[] = [];
  let host: GpuHost | null = null;
  let wasm: W | undefined;
  try {
    const chosen = await chooseDevice(options);
    host = chosen.host;
    const open = opener(options, look.files.items, new Integrity({}), abort.signal);
    const [{ create }, model] = await Promise.all([look.module(), findModel(look.files, open)]);
    throwIfAborted(signal);
    const engine = create(JSON.stringify({ ...chosen.options, ...look.own, threads: 1 }), platform, host);
    wasm = engine;
    look.prepare?.(engine);
    shards = await openModel(engine, model, open);
    await inParallel(shards, abort, async (shard, i) => {
      await readHeader(shard, i, { engine, host, abort }, () => {});
      await shard.pause(); // closed below: what is kept depends on the model
    });
    const text = await unlessBad(shards, look.ask(engine));
    throwIfAborted(signal);
    return use({ wasm: engine, host, options: chosen.options, shards, text }, () => ([wasm, host] = [undefined, null]));
  } catch (error) {
    abort.abort();
    throwIfAborted(signal);
    throw toRlxError(error);
  } finally {
    signal?.removeEventListener('abort', stop);
    await Promise.all(shards.map((shard) => shard.close()));
    try {
      wasm?.dispose();
    } finally {
      host?.dispose();
    }
  }
}
