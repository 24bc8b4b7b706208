/** What a model would need, from its headers alone. */

import { engineOptions } from './bring.js';
import { toRlxError } from './error.js';
import { languageFiles } from './folder.js';
import { lookAtHeaders } from './headers.js';
import { modelItems } from './options.js';
import type { ShardReader } from './shard.js';
import type { Estimate, EstimateOptions } from './types.js';
import type { WasmEngine, WasmEstimate } from './wasm.js';
import { loadModule } from './wasm_module.js';

/** `Engine.estimate`. */
export async function estimate(options: EstimateOptions): Promise<Estimate> {
  const files = languageFiles(modelItems(options.model, 'model'));
  const own = engineOptions(options);
  const ask = (wasm: WasmEngine) => wasm.estimate();
  return lookAtHeaders(options, { files, module: () => loadModule(options.wasm), own, ask }, ({ options: { device, fallbackReason }, shards, text }) => {
    const { refusal, ...needs } = JSON.parse(text) as WasmEstimate;
    return {
      device, fallbackReason, fits: refusal === undefined,
      fileBytes: sum(shards), downloadBytes: sum(shards.filter(({ from }) => from === 'network')),
      ...needs,
      ...(refusal !== undefined && { refusal: toRlxError(JSON.stringify(refusal)) }),
    };
  });
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
