/** The fastest kernel variants of a GPU: measured once, stored for this origin, used by every load. */

import { throwIfAborted, toRlxError } from './error.js';
import { GpuHost } from './gpu_host.js';
import { keep, TUNINGS } from './kept.js';
import { platform } from './platform.js';
import { copyRate, formsOf, reportOf } from './report.js';
import { MODELS } from './report_models.js';
import type { FormsReport } from './report_types.js';
import type { CopyRate, CopyRateOptions, TuneOptions, Tuned } from './types.js';
import type { WasmEngine, WasmTuned } from './wasm.js';
import { loadModule } from './wasm_module.js';

/** The tuning's share of a report's progress. */
const TUNED = 0.7;

/** `Engine.copyRate`. */
export async function measureCopies({ gpu, signal }: CopyRateOptions): Promise<CopyRate> {
  throwIfAborted(signal);
  let host: GpuHost | undefined;
  try {
    host = await GpuHost.create(gpu ?? (globalThis.navigator as Navigator | undefined)?.gpu);
    throwIfAborted(signal);
    return { adapter: host.adapterName(), bytesPerSecond: await copyRate(host.device) };
  } catch (error) {
    throw toRlxError(error);
  } finally {
    host?.dispose();
  }
}

/** `Engine.tune`. */
export async function tune({ gpu, wasm: build, report: reports = false, onProgress, signal }: TuneOptions): Promise<Tuned> {
  /** Works with an engine on a device of its own, with this tuning. */
  const onGpu = async <T>(tuning: string | null, work: (engine: WasmEngine, host: GpuHost) => Promise<T>): Promise<T> => {
    throwIfAborted(signal);
    let host: GpuHost | undefined;
    try {
      host = await GpuHost.create(gpu ?? (globalThis.navigator as Navigator | undefined)?.gpu);
      const { create } = await loadModule(build);
      throwIfAborted(signal);
      const options = { device: 'webgpu', fallbackReason: null, contextLength: null, kv: null, activations: null, threads: 1, tuning };
      const wasm = create(JSON.stringify(options), platform, host);
      try {
        return await work(wasm, host);
      } finally {
        wasm.dispose();
      }
    } finally {
      host?.dispose();
    }
  };
  try {
    const share = reports ? TUNED : 1;
    const { tuned, software, rate } = await onGpu(null, async (engine, host) => ({
      tuned: JSON.parse(await engine.tune((done) => onProgress?.(share * done))) as WasmTuned,
      software: (JSON.parse(host.describe()) as { software: boolean }).software,
      rate: reports ? await copyRate(host.device) : 0,
    }));
    throwIfAborted(signal);
    const { key, adapter, tuning } = tuned;
    const kept = keep(TUNINGS, key, tuning);
    if (!reports) return { adapter, tuning, kept };
    const forms: FormsReport[] = [];
    // Nobody waits for a GPU that is simulated, and its times say nothing of others.
    for (const model of software ? [] : MODELS) {
      forms.push(await onGpu(tuning, (engine) => formsOf(model, engine)));
      onProgress?.(TUNED + (1 - TUNED) * forms.length / MODELS.length);
    }
    if (forms.length === 0) onProgress?.(1);
    throwIfAborted(signal);
    return { adapter, tuning, kept, report: reportOf(tuned, { software, rate, forms }) };
  } catch (error) {
    throw toRlxError(error);
  }
}
