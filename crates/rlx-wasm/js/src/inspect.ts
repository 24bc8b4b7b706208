/**
 * `rlx-wasm/inspect`: what the compiler makes of a network, from its headers alone. No weights are downloaded.
 *
 * ```js
 * import { inspect } from 'rlx-wasm/inspect';
 * using inspection = await inspect({ model: 'model.gguf', device: 'webgpu' });
 * console.log(inspection.programs, inspection.program('decode').lir);
 * ```
 */

import { engineOptions } from './bring.js';
import { RlxError, toRlxError, usage } from './error.js';
import type { GpuHost } from './gpu_host.js';
import { loadGraphs } from './graphs_module.js';
import { lookAtHeaders } from './headers.js';
import { GpuTimes } from './gpu_times.js';
import type { InspectedModel, InspectedProgram, InspectOptions, InspectPhase, Trace, TraceOptions } from './inspect_types.js';
import './lazy_here.js';
import { listening } from './listeners.js';
import { sessionFiles } from './network_files.js';
import { checkOptions } from './options.js';
import { traced } from './trace.js';
import type { LoadOptions } from './types.js';
import { noPurpose } from './wasm_session.js';
import type { WasmInspection, WasmSession } from './wasm_session.js';

export type * from './inspect_types.js';

/** A network that the compiler has looked at. */
export class Inspection {
  /** Facts about the model; null for a graph. */
  readonly model: InspectedModel | null;
  /** The device that it is compiled for; with `auto`, why it is not the GPU. */
  readonly device: 'webgpu' | 'cpu';
  readonly fallbackReason: string | null;
  /** The target that the plan is made for, as `rlx inspect --target` takes it. */
  readonly target: string;
  /** Names of programs: of a language model those that generate text, of another network its entries. */
  readonly programs: readonly string[];
  #running: { wasm: WasmSession; host: GpuHost | null } | undefined;
  #tracing = false;

  constructor(running: { wasm: WasmSession; host: GpuHost | null }, { model, target, programs }: WasmInspection, fallbackReason: string | null) {
    [this.model, this.target, this.programs] = [model, target, programs];
    this.device = running.host ? 'webgpu' : 'cpu';
    this.fallbackReason = fallbackReason;
    this.#running = running;
  }

  /**
   * A program at every stage. An entry's is for one text, of 128 tokens or as many as the model takes.
   *
   * Throws an `RlxError`: `usage` (a name that is not in `programs`, a size that has no usual value), `unsupported`,
   * `bad_file` (a tensor that is missing), `disposed`.
   */
  program(name: string): InspectedProgram {
    const { wasm } = this.#live();
    try {
      return JSON.parse(wasm.program(String(name))) as InspectedProgram;
    } catch (error) {
      throw toRlxError(error);
    }
  }

  /**
   * Times a program's kernels on this GPU. The program gets memory of its own for weights, caches and arena, as much
   * as a loaded model has, which is free again afterwards. The weights are zeros, so nothing is downloaded. Kernels
   * take as long with other values, with two exceptions: with zeros all rows of a prompt have the same experts, and
   * a GPU may keep a higher clock. The sampler takes the best token. Each kernel has a compute pass of its own, so
   * that kernels do not overlap: a step of short kernels takes two or three times as long as in an engine. Compare
   * the kernels with each other, not their sum with an engine's step.
   *
   * Rejects with an `RlxError`: `unsupported` (the CPU, which has no such clock; a browser or a GPU without WebGPU's
   * feature `timestamp-query`), `usage` (an option; a trace while another one runs), `out_of_memory`, `cancelled` (the
   * signal), `device_lost`, `disposed`.
   */
  async trace(name: string, options: TraceOptions = {}): Promise<Trace> {
    const { wasm, host } = this.#live();
    if (this.#tracing) throw usage('a trace is under way', 'trace', 'wait for it, or end it by its signal');
    this.#tracing = true;
    try {
      if (host?.device.features.has('timestamp-query')) host.times = new GpuTimes(host);
      return await traced(wasm, String(name), options);
    } catch (error) {
      throw this.#running ? toRlxError(error) : ended();
    } finally {
      this.#tracing = false;
      host?.times?.dispose();
      delete host?.times;
    }
  }

  #live(): { wasm: WasmSession; host: GpuHost | null } {
    if (!this.#running) throw ended();
    return this.#running;
  }

  /** Frees its memory. Calling it again does nothing. */
  dispose(): void {
    const running = this.#running;
    this.#running = undefined;
    try {
      running?.wasm.dispose();
    } finally {
      running?.host?.dispose();
    }
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

const ended = () => new RlxError('disposed', 'the inspection was disposed');

/** The members that are given. */
function given<T extends object>(all: T): { [key in keyof T]?: NonNullable<T[key]> } {
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as { [key in keyof T]?: NonNullable<T[key]> };
}

/**
 * Reads the headers of a network's files and compiles it, in the calling thread. This fetches the wasm module's build for
 * networks that are no language models, which has the compiler's other half.
 *
 * Rejects with an `RlxError`: as `Session.load`, but for what a device runs out of.
 */
export async function inspect(options: InspectOptions): Promise<Inspection> {
  if (typeof options !== 'object' || options === null) throw usage('inspect takes an object of options', '');
  const { kv, activations, blockLength, conversationBytes, onPhase, ...network } = options;
  const files = sessionFiles(network);
  const language: LoadOptions = { model: '', ...given({ kv, activations, blockLength, conversationBytes }) };
  checkOptions(language);
  const { graph } = files;
  const tell = onPhase ? listening(onPhase) : (_: InspectPhase) => {};
  return lookAtHeaders(options, {
    files,
    module: () => {
      tell('compiler');
      return loadGraphs(options.wasm);
    },
    own: { ...engineOptions(language), ...noPurpose },
    prepare: (wasm: WasmSession) => {
      tell('headers');
      if (graph !== undefined) wasm.text('graph', 'graph', new TextEncoder().encode(graph));
    },
    ask: (wasm) => {
      tell('compile');
      return wasm.inspect();
    },
  }, ({ wasm, host, options: { fallbackReason }, text }, keep) => {
    const inspection = new Inspection({ wasm, host }, JSON.parse(text) as WasmInspection, fallbackReason);
    keep();
    return inspection;
  });
}
