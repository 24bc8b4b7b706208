/** Loads a network to a device, for `load` of all classes but `Engine`. */

import { bringTo } from './bring.js';
import type { Running } from './bring.js';
import { openModel } from './folder.js';
import { loadGraphs } from './graphs_module.js';
import './lazy_here.js';
import { load } from './loader.js';
import type { NetworkFiles } from './network_files.js';
import type { NetworkOptions } from './session_types.js';
import { noPurpose } from './wasm_session.js';
import type { WasmSession, WasmSessionOptions } from './wasm_session.js';

/** A network on a device. */
export function bringNetwork(options: NetworkOptions, files: NetworkFiles, purpose: Partial<WasmSessionOptions> = {}): Promise<Running<WasmSession>> {
  return bringTo(options, {
    module: () => loadGraphs(options.wasm),
    files,
    options: { ...noPurpose, ...purpose } satisfies WasmSessionOptions,
    load: async (wasm, { host, abort, model, open }) => {
      if (files.graph !== undefined) wasm.text('graph', 'graph', new TextEncoder().encode(files.graph));
      await load(await openModel(wasm, model, open), { engine: wasm, host, abort, onProgress: options.onProgress });
    },
  });
}
