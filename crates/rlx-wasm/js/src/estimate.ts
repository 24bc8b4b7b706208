/** What a model would need, from its headers alone. */

import { chooseDevice, engineOptions, opener } from './bring.js';
import { throwIfAborted, toRlxError } from './error.js';
import { languageFiles, openModel } from './folder.js';
import type { GpuHost } from './gpu_host.js';
import { inParallel, readHeader, unlessBad } from './loader.js';
import { modelItems } from './options.js';
import { Integrity } from './integrity.js';
import { platform } from './platform.js';
import type { ShardReader } from './shard.js';
import type { Estimate, EstimateOptions } from './types.js';
import type { WasmEngine, WasmEstimate } from './wasm.js';
import { loadModule } from './wasm_module.js';

/** `Engine.estimate`. */
export async function estimate(options: EstimateOptions): Promise<Estimate> {
  const { signal } = options;
  const items = modelItems(options.model, 'model');
  throwIfAborted(signal);
  const abort = new AbortController();
  const stop = () => abort.abort();
  signal?.addEventListener('abort', stop, { once: true });
  let shards: ShardReader[] = [];
  let host: GpuHost | null = null;
  let wasm: WasmEngine | undefined;
  try {
    const chosen = await chooseDevice(options);
    host = chosen.host;
    const { create } = await loadModule(options.wasm);
    throwIfAborted(signal);
    const engine = create(JSON.stringify({ ...chosen.options, ...engineOptions(options), threads: 1 }), platform, host);
    wasm = engine;
    shards = await openModel(engine, languageFiles(items), { host, abort, open: opener(options, items, new Integrity({}), abort.signal) });
    await inParallel(shards, abort, async (shard, i) => {
      await readHeader(shard, i, { engine, host, abort }, () => {});
      await shard.pause(); // closed below: what is kept depends on the model
    });
    const { refusal, ...needs } = JSON.parse(await unlessBad(shards, engine.estimate())) as WasmEstimate;
    const { device, fallbackReason } = chosen.options;
    return {
      device, fallbackReason, fits: refusal === undefined,
      fileBytes: sum(shards), downloadBytes: sum(shards.filter(({ from }) => from === 'network')),
      ...needs,
      ...(refusal !== undefined && { refusal: toRlxError(JSON.stringify(refusal)) }),
    };
  } catch (error) {
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

/** The files' bytes; null if a server does not say. */
function sum(shards: readonly ShardReader[]): number | null {
  let all = 0;
  for (const { expectedBytes } of shards) {
    if (expectedBytes === undefined) return null;
    all += expectedBytes;
  }
  return all;
}
