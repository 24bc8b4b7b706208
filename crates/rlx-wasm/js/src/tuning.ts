/** The fastest kernel variants of a GPU: measured once, stored for this origin, used by every load. */

import { throwIfAborted, toRlxError } from './error.js';
import { GpuHost } from './gpu_host.js';
import { keep, TUNINGS } from './kept.js';
import { platform } from './platform.js';
import type { TuneOptions, Tuned } from './types.js';
import { loadModule } from './wasm_module.js';

/** `Engine.tune`. */
export async function tune({ gpu, wasm: build, onProgress, signal }: TuneOptions): Promise<Tuned> {
  let host: GpuHost | undefined;
  try {
    throwIfAborted(signal);
    host = await GpuHost.create(gpu ?? (globalThis.navigator as Navigator | undefined)?.gpu);
    const { create } = await loadModule(build);
    throwIfAborted(signal);
    const options = { device: 'webgpu', fallbackReason: null, contextLength: null, kv: null, activations: null, threads: 1 };
    const wasm = create(JSON.stringify(options), platform, host);
    try {
      const answer = await wasm.tune((done) => onProgress?.(done));
      const { key, tuning } = JSON.parse(answer) as { key: string; tuning: string };
      throwIfAborted(signal);
      return { adapter: host.adapterName(), tuning, kept: keep(TUNINGS, key, tuning) };
    } finally {
      wasm.dispose();
    }
  } catch (error) {
    throw toRlxError(error);
  } finally {
    host?.dispose();
  }
}
