/**
 * `auto` where there is a GPU: both devices run a few layers of the model, at their own sizes and before any of its
 * weights is fetched, and the faster one gets it. It is timed once for an origin, adapter, build for the CPU and class
 * of models. A script of its own, because most pages never need it: they have a device, or know which is faster.
 */

import type { Contending, Rival } from './bring.js';
import { chooseBuild } from './builds.js';
import { cancelled, toRlxError } from './error.js';
import type { GpuHost } from './gpu_host.js';
import { keep, kept, SPEEDS } from './kept.js';
import { platform } from './platform.js';
import type { DeviceComparison, EngineInfo } from './types.js';
import type { WasmEngine, WasmExcerpt } from './wasm.js';
import { forgetIdle } from './wasm_module.js';

/** Most steps at once, as `WasmEngine.trial` takes them. */
const MOST_STEPS = 256;
/** Steps that take so long are enough for a clock. */
const ENOUGH_MS = 15;
/** Such steps are timed so often besides. */
const ROUNDS = 5;
/** Nothing more is begun after so long. */
const MOST_MS = 400;

/** Tokens per second. */
interface Rates {
  webgpu: number;
  cpu: number;
}

/** An engine, and what opens the model after all headers, where it runs best: `engine` is that one from then on. */
export interface Contest extends Contending {
  settle(): Promise<{ engine: WasmEngine; host: GpuHost | null }>;
}

/** An engine on the GPU that gives way to one on the CPU, of so many threads, where that is faster. */
export function contest(gpu: WasmEngine, host: GpuHost, rival: Rival<WasmEngine>, threads: number, signal: AbortSignal): Contest {
  /** What the GPU's engine was given, for the other one. */
  let given: ((engine: WasmEngine) => unknown)[] = [];
  const give = <T>(gift: (engine: WasmEngine) => T): T => {
    given.push(gift);
    return gift(gpu);
  };
  const recorder: WasmEngine = {
    ...gpu,
    text: (name, at, bytes) => give((to) => to.text(name, at, bytes)),
    pushHeader: (shard, name, fileBytes, chunk) => {
      const copy = chunk.slice(); // the reader uses its buffer again
      return give((to) => to.pushHeader(shard, name, fileBytes, copy));
    },
  };

  const settle: Contest['settle'] = async () => {
    let cpu: WasmEngine | undefined;
    const challenger = async () => {
      if (cpu) return cpu;
      cpu = await rival.create();
      for (const gift of given) gift(cpu);
      return cpu;
    };
    const leave = () => {
      cpu?.dispose();
      forgetIdle(); // the CPU's instance has the memory of the layers that were timed
    };
    let comparison: DeviceComparison;
    try {
      const { device, class: models, scale } = JSON.parse(gpu.excerpt()) as WasmExcerpt;
      const key = `${device}; ${models}; ${chooseBuild(threads > 1)} ${threads}`;
      const known = read(kept(SPEEDS)[key]);
      const rates = known ?? { cpu: await rate(await challenger(), scale, signal), webgpu: await rate(gpu, scale, signal) };
      if (!known) keep(SPEEDS, key, `${rates.webgpu} ${rates.cpu}`); // where it cannot be kept it is timed again
      comparison = {
        webgpuTokensPerSecond: rates.webgpu, cpuTokensPerSecond: rates.cpu, from: known ? 'remembered' : 'measured',
        reason: `the GPU (${host.adapterName()}) makes about ${rates.webgpu} tokens a second, the CPU ${rates.cpu}`,
      };
      if (rates.cpu > rates.webgpu) {
        const winner = await challenger();
        await winner.open();
        given = [];
        rival.replace(winner);
        running.engine = telling(winner, { comparison, fallbackReason: `the CPU is faster: ${comparison.reason}` });
        return { engine: running.engine, host: null };
      }
    } catch (error) {
      if (signal.aborted) {
        leave();
        throw cancelled('the load was cancelled');
      }
      // Whatever it was, the GPU is still there: what is wrong with the model its `open` says.
      const reason = `the GPU and the CPU were not compared: ${toRlxError(error).what}`;
      comparison = { webgpuTokensPerSecond: null, cpuTokensPerSecond: null, from: null, reason };
    }
    given = [];
    leave();
    await gpu.open();
    running.engine = telling(gpu, { comparison });
    return { engine: running.engine, host };
  };
  const running: Contest = { engine: recorder, settle };
  return running;
}

/** The engine, whose `info` has this too. */
const telling = (engine: WasmEngine, more: Partial<EngineInfo>): WasmEngine =>
  ({ ...engine, info: () => JSON.stringify({ ...JSON.parse(engine.info()) as object, ...more }) });

/** What an earlier load kept; anything else is nothing. */
function read(text: unknown): Rates | undefined {
  const [, webgpu, cpu] = /^(\d+(?:\.\d+)?) (\d+(?:\.\d+)?)$/.exec(typeof text === 'string' ? text : '') ?? [];
  const rates = { webgpu: Number(webgpu), cpu: Number(cpu) };
  return rates.webgpu > 0 && rates.cpu > 0 && rates.webgpu + rates.cpu < Infinity ? rates : undefined;
}

/** Tokens that the model would make in a second, to three digits. */
async function rate(engine: WasmEngine, scale: number, signal: AbortSignal): Promise<number> {
  return Number((1000 / (scale * await stepMs(engine, signal))).toPrecision(3));
}

/** Milliseconds of a step. */
async function stepMs(engine: WasmEngine, signal: AbortSignal): Promise<number> {
  const timed = async (steps: number) => {
    signal.throwIfAborted();
    const from = platform.now();
    await engine.trial(steps);
    return Math.max(platform.now() - from, 0.01); // a coarse clock may stand still
  };
  await timed(1); // kernels compile, and memory is touched
  const began = platform.now();
  const late = () => platform.now() - began > MOST_MS;
  let [steps, took, factor] = [1, await timed(1), 2];
  while (steps < MOST_STEPS && !late()) {
    const more = Math.min(factor * steps, MOST_STEPS);
    let longer = await timed(more);
    // A browser may tell only now and then that a GPU has finished: what more steps add is what they take.
    const grew = () => longer > 1.5 * took;
    const enough = () => (grew() && longer > ENOUGH_MS) || more === MOST_STEPS;
    if (enough()) {
      // The fastest counts: the first ones run before the browser has optimised the module, and others have their turns.
      for (let round = 0; round < ROUNDS && !late(); round++) {
        [took, longer] = [Math.min(took, await timed(steps)), Math.min(longer, await timed(more))];
      }
      if (enough() || late()) return grew() ? (longer - took) / (more - steps) : longer / more;
    }
    [steps, took, factor] = [more, longer, grew() ? 2 : 8];
  }
  return took / steps;
}
