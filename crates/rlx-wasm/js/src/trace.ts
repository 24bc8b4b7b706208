/** Means of a program's timed runs. */

import { throwIfAborted, usage } from './error.js';
import type { Trace, TraceOptions } from './inspect_types.js';
import { heard } from './listeners.js';
import type { WasmLaunch, WasmSession, WasmTraced } from './wasm_session.js';

/** Most runs. */
const MOST = 1000;
const NS = 1e6;

function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value;
  throw usage(`${name} is ${String(value)}`, name, `give a whole number from ${least} to ${most}`);
}

/** Times the program's kernels: memory is taken, and free again when this settles. */
export async function traced(
  wasm: Pick<WasmSession, 'trace' | 'traceReady' | 'traceRun' | 'endTrace'>, program: string, options: TraceOptions,
  now: () => number = () => performance.now(),
): Promise<Trace> {
  const { signal, onProgress } = heard(options);
  const past = whole('past', options.past ?? 0, 0, 2 ** 32 - 1);
  const most = whole('runs', options.runs ?? 50, 1, MOST);
  const milliseconds = whole('milliseconds', options.milliseconds ?? 4000, 0, 2 ** 31);
  throwIfAborted(signal);
  try {
    wasm.trace(program, past);
    const about = JSON.parse(await wasm.traceReady()) as WasmTraced;
    const runs: WasmLaunch[][] = [];
    const until = now() + milliseconds;
    while (runs.length < most && (runs.length === 0 || now() < until)) {
      throwIfAborted(signal);
      runs.push(JSON.parse(await wasm.traceRun()) as WasmLaunch[]);
      onProgress?.({ done: runs.length, runs: most });
    }
    throwIfAborted(signal);
    return means(program, about, runs);
  } finally {
    wasm.endTrace();
  }
}

/** All runs have the same launches. */
function means(program: string, { past, rows, bytes, steps }: WasmTraced, runs: readonly WasmLaunch[][]): Trace {
  const mean = (of: (launches: readonly WasmLaunch[]) => number) => runs.reduce((sum, run) => sum + of(run), 0) / runs.length / NS;
  const launches = runs[0]!.map(({ step, kernel }, i) => {
    const { label = kernel, operator = kernel, read = 0, written = 0, operations = 0 } = steps[step] ?? {};
    return {
      step, label, operator, kernel,
      startMs: mean((run) => run[i]!.begin),
      ms: mean((run) => Math.max(0, run[i]!.end - run[i]!.begin)),
      readBytes: read, writtenBytes: written, operations,
    };
  });
  const ms = mean((run) => run.reduce((last, { end }) => Math.max(last, end), 0));
  return { program, past, rows, runs: runs.length, ms, clockMs: smallestStep(runs) / NS, bytes, launches };
}

/** The smallest difference of two times of a run; 0 if all are equal. */
function smallestStep(runs: readonly WasmLaunch[][]): number {
  let least = Infinity;
  for (const run of runs) {
    const times = run.flatMap(({ begin, end }) => [begin, end]).sort((a, b) => a - b);
    times.forEach((time, i) => {
      const step = time - (times[i - 1] ?? time);
      if (step > 0 && step < least) least = step;
    });
  }
  return least === Infinity ? 0 : least;
}
