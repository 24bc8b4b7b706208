/** `auto` between a GPU and the CPU: engines whose steps take a time that the test says, on a clock of the test. */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { contest } from '../src/contest.js';
import type { GpuHost } from '../src/gpu_host.js';
import { borrow, SPEEDS } from '../src/kept.js';
import { platform } from '../src/platform.js';
import type { EngineInfo } from '../src/types.js';
import type { WasmEngine } from '../src/wasm.js';

const { now } = platform;
let clock = 0;
/** What is kept, as in a page. */
let speeds: { [key: string]: string } = {};
beforeEach(() => {
  platform.now = () => clock;
  speeds = {};
  borrow({}, (name, key, text) => {
    assert.equal(name, SPEEDS);
    speeds[key] = text;
  });
});
afterEach(() => {
  platform.now = now;
});

/** How a device behaves. */
interface Device {
  /** Milliseconds of a step of the excerpt, which is a tenth of the model. */
  step: number;
  /** Work is reported at multiples of so many milliseconds. */
  told?: number;
  excerpt?: () => string;
  fails?: { [method in 'trial' | 'open']?: Error };
}

/** An engine on such a device; `log` says what was done with it. */
function engineOn({ step, told = 0, excerpt, fails = {} }: Device): { engine: WasmEngine; log: string[] } {
  const log: string[] = [];
  const engine = {
    excerpt: excerpt ?? (() => JSON.stringify({ device: 'card; ; rlx 1.0.0', class: 'llama 16 layers', scale: 10 })),
    text: (name: string) => log.push(`text ${name}`),
    pushHeader: (shard: number, name: string, size: number, bytes: Uint8Array) => {
      log.push(`header ${shard} ${name} ${size} ${[...bytes].join()}`);
      return true;
    },
    trial: async (steps: number) => {
      if (fails.trial) throw fails.trial;
      log.push('trial');
      clock += steps * step;
      if (told > 0) clock = Math.ceil(clock / told) * told;
    },
    open: async () => {
      if (fails.open) throw fails.open;
      log.push('open');
    },
    dispose: () => log.push('dispose'),
    info: () => JSON.stringify({ fallbackReason: null }),
  };
  return { engine: engine as unknown as WasmEngine, log };
}

interface Around {
  threads?: number;
  signal?: AbortSignal;
  create?: () => Promise<never>;
}

/** Loads headers on a GPU where the CPU may be faster; says what came of it. */
async function load(onGpu: Device, onCpu: Device, { threads = 1, signal = new AbortController().signal, create }: Around = {}) {
  const [gpu, cpu] = [engineOn(onGpu), engineOn(onCpu)];
  const replaced: WasmEngine[] = [];
  const host = { adapterName: () => 'card' } as GpuHost;
  const rival = { create: create ?? (async () => cpu.engine), replace: (engine: WasmEngine) => replaced.push(engine) };
  const running = contest(gpu.engine, host, rival, threads, signal);
  const chunk = Uint8Array.of(1, 2);
  running.engine.text('config.json', 'here', chunk);
  assert.equal(running.engine.pushHeader(3, 'a.gguf', 9, chunk), true);
  chunk.fill(0); // as a reader uses its buffer again
  const settled = await running.settle();
  assert.equal(settled.engine, running.engine);
  const { comparison, fallbackReason } = JSON.parse(running.engine.info()) as EngineInfo;
  const trials = (log: string[]) => log.filter((entry) => entry === 'trial').length;
  const rest = (log: string[]) => log.filter((entry) => entry !== 'trial');
  return {
    comparison: comparison!, fallbackReason, host: settled.host === host,
    gpu: rest(gpu.log), cpu: rest(cpu.log), trials: [trials(gpu.log), trials(cpu.log)], replaced: replaced.map((it) => it === cpu.engine),
  };
}

const GIVEN = ['text config.json', 'header 3 a.gguf 9 1,2'];

test('a GPU that is slower loses the model to the CPU, which has read what the GPU was given', async () => {
  const seen = await load({ step: 50 }, { step: 4 });
  assert.deepEqual(seen.comparison, {
    webgpuTokensPerSecond: 2, cpuTokensPerSecond: 25, from: 'measured', reason: 'the GPU (card) makes about 2 tokens a second, the CPU 25',
  });
  assert.equal(seen.fallbackReason, 'the CPU is faster: the GPU (card) makes about 2 tokens a second, the CPU 25');
  assert.deepEqual([seen.gpu, seen.cpu, seen.replaced, seen.host], [GIVEN, [...GIVEN, 'open'], [true], false]);
});

test('a GPU that is faster, or as fast, keeps it, and the CPU leaves', async () => {
  for (const step of [0.1, 4]) {
    speeds = {};
    borrow({}, () => {});
    const seen = await load({ step }, { step: 4 });
    assert.deepEqual([seen.comparison.webgpuTokensPerSecond, seen.comparison.cpuTokensPerSecond, seen.fallbackReason], [100 / step, 25, null]);
    assert.deepEqual([seen.gpu, seen.cpu, seen.replaced, seen.host], [[...GIVEN, 'open'], [...GIVEN, 'dispose'], [], true]);
  }
});

test('what is measured is remembered by adapter, class and build, and timed once', async () => {
  await load({ step: 50 }, { step: 4 });
  const [[key, text] = []] = Object.entries(speeds);
  assert.match(key!, /^card; ; rlx 1\.0\.0; llama 16 layers; rlx(-relaxed)? 1$/);
  assert.equal(text, '2 25');
  const again = await load({ step: 0.1 }, { step: 400 });
  assert.deepEqual([again.comparison.from, again.comparison.cpuTokensPerSecond, again.trials], ['remembered', 25, [0, 0]]);
  assert.deepEqual([again.cpu, again.replaced], [[...GIVEN, 'open'], [true]]);
  const others: [Device, Around][] = [
    [{ step: 1, excerpt: () => JSON.stringify({ device: 'card; ; rlx 1.0.1', class: 'llama 16 layers', scale: 10 }) }, {}],
    [{ step: 1, excerpt: () => JSON.stringify({ device: 'card; ; rlx 1.0.0', class: 'llama 32 layers', scale: 10 }) }, {}],
    [{ step: 1 }, { threads: 2 }],
  ];
  for (const [gpu, around] of others) assert.equal((await load(gpu, { step: 4 }, around)).comparison.from, 'measured');
  assert.equal(Object.keys(speeds).length, 4);
  // One that is known to be faster needs no engine on the CPU.
  const kept = await load({ step: 1 }, { step: 4 }, { threads: 2 });
  assert.deepEqual([kept.comparison.from, kept.cpu, kept.trials], ['remembered', [], [0, 0]]);
});

test('what is no pair of rates is as if nothing had been kept', async () => {
  await load({ step: 50 }, { step: 4 });
  const [key] = Object.keys(speeds);
  for (const text of ['', '2', '2 25 1', '0 25', '2 0', '-2 25', '2 1e9', 'NaN 25', `2 ${'9'.repeat(400)}`, '<b>', null, 7, {}]) {
    borrow({ [SPEEDS]: { [key!]: text as string } }, () => {});
    assert.equal((await load({ step: 50 }, { step: 4 })).comparison.from, 'measured', JSON.stringify(text));
  }
});

test('a GPU whose work is reported late is not slow for that', async () => {
  const { comparison } = await load({ step: 1, told: 100 }, { step: 8 });
  assert.equal(comparison.cpuTokensPerSecond, 12.5);
  assert.ok(comparison.webgpuTokensPerSecond! > 50 && comparison.webgpuTokensPerSecond! <= 250, JSON.stringify(comparison));
});

test('a device that is very slow runs a few steps, one that is very fast enough for a clock', async () => {
  const slow = await load({ step: 3000 }, { step: 0.001 });
  assert.deepEqual(slow.trials[0], 2);
  assert.deepEqual(slow.comparison.webgpuTokensPerSecond, 0.0333);
  assert.equal(slow.comparison.cpuTokensPerSecond, 100_000);
  assert.ok(slow.trials[1]! <= 20, String(slow.trials[1]));
  // A clock that stands still.
  borrow({}, () => {});
  const { comparison } = await load({ step: 0 }, { step: 4 });
  assert.ok(Number.isFinite(comparison.webgpuTokensPerSecond), JSON.stringify(comparison));
});

test('where they cannot be compared the GPU is taken, and says why', async () => {
  const fault = new Error('no');
  const unsupported = () => {
    throw JSON.stringify({ code: 'unsupported', what: 'the model has no steps of a token' });
  };
  const cases: [Device, Device, Around, string, string[]][] = [
    [{ step: 50, excerpt: unsupported }, { step: 4 }, {}, 'the model has no steps of a token', []],
    [{ step: 50, fails: { trial: fault } }, { step: 4 }, {}, 'no', [...GIVEN, 'dispose']],
    [{ step: 50 }, { step: 4, fails: { trial: fault } }, {}, 'no', [...GIVEN, 'dispose']],
    [{ step: 50 }, { step: 4, fails: { open: fault } }, {}, 'no', [...GIVEN, 'dispose']],
    [{ step: 50 }, { step: 4 }, { create: () => Promise.reject(fault) }, 'no', []],
  ];
  for (const [gpu, cpu, around, what, left] of cases) {
    borrow({}, () => {});
    const seen = await load(gpu, cpu, around);
    const reason = `the GPU and the CPU were not compared: ${what}`;
    assert.deepEqual(seen.comparison, { webgpuTokensPerSecond: null, cpuTokensPerSecond: null, from: null, reason });
    assert.deepEqual([seen.gpu, seen.cpu, seen.replaced, seen.host, seen.fallbackReason], [[...GIVEN, 'open'], left, [], true, null]);
  }
});

test('an error of the GPU\'s open is the load\'s', async () => {
  await assert.rejects(load({ step: 1, fails: { open: new Error('out of memory') } }, { step: 4 }), /out of memory/);
});

test('a load that is cancelled meanwhile opens nothing', async () => {
  const abort = new AbortController();
  const excerpt = () => {
    abort.abort();
    return JSON.stringify({ device: 'card', class: 'llama', scale: 10 });
  };
  await assert.rejects(load({ step: 1, excerpt }, { step: 4 }, { signal: abort.signal }), { code: 'cancelled' });
  assert.deepEqual(speeds, {});
});
