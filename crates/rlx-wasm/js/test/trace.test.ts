/** Times of kernels: means over runs, the order of calls, and what ends a trace. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RlxError } from '../src/error.js';
import { GpuHost } from '../src/gpu_host.js';
import { GpuTimes } from '../src/gpu_times.js';
import { traced } from '../src/trace.js';
import type { WasmLaunch } from '../src/wasm_session.js';

const STEPS = [
  { label: 'blk.0.attn_q', operator: 'matmul', read: 1000, written: 24, operations: 2000 },
  { label: 'blk.0.view', operator: 'view', read: 0, written: 0, operations: 0 },
  { label: 'output', operator: 'matmul', read: 500, written: 4, operations: 900 },
];

/** A module whose runs have these times, and the calls that it got. */
function fake(runs: WasmLaunch[][], ready: () => Promise<void> = async () => {}) {
  const calls: string[] = [];
  let next = 0;
  return {
    calls,
    wasm: {
      trace: (program: string, past: number) => void calls.push(`trace ${program} ${past}`),
      traceReady: async () => {
        await ready();
        return JSON.stringify({ past: 7, rows: 1, bytes: 4096, steps: STEPS });
      },
      traceRun: async () => {
        calls.push('run');
        return JSON.stringify(runs[next++ % runs.length]);
      },
      endTrace: () => void calls.push('end'),
    },
  };
}

const run = (...times: [number, number][]): WasmLaunch[] =>
  times.map(([begin, end], i) => ({ step: 2 * i, kernel: `k${i}`, begin, end }));

test('times are means of all runs, beside the steps that they are of', async () => {
  const { wasm, calls } = fake([run([0, 100_000], [100_000, 300_000]), run([0, 0], [100_000, 200_000])]);
  const progress: number[] = [];
  const trace = await traced(wasm, 'decode', { past: 7, runs: 4, onProgress: ({ done, runs }) => progress.push(done, runs) });
  assert.deepEqual(calls, ['trace decode 7', 'run', 'run', 'run', 'run', 'end']);
  assert.deepEqual(progress, [1, 4, 2, 4, 3, 4, 4, 4]);
  const { launches, ...about } = trace;
  assert.deepEqual(about, { program: 'decode', past: 7, rows: 1, runs: 4, ms: 0.25, clockMs: 0.1, bytes: 4096 });
  assert.deepEqual(launches.map(({ label, operator, kernel, startMs, ms }) => [label, operator, kernel, startMs, ms]), [
    ['blk.0.attn_q', 'matmul', 'k0', 0, 0.05], ['output', 'matmul', 'k1', 0.1, 0.15],
  ]);
  assert.deepEqual(launches.map(({ readBytes, writtenBytes, operations }) => [readBytes, writtenBytes, operations]), [[1000, 24, 2000], [500, 4, 900]]);
});

test('it ends when its time is over, after one run at least; an end before its begin takes no time', async () => {
  let clock = 0;
  const { wasm, calls } = fake([run([5, 3])]);
  const trace = await traced(wasm, 'decode', { milliseconds: 25 }, () => (clock += 10));
  assert.deepEqual([trace.runs, trace.launches[0]!.ms], [3, 0]);
  assert.equal((await traced(fake([run([0, 1])]).wasm, 'decode', { milliseconds: 0 }, () => 1)).runs, 1);
  assert.equal(calls.at(-1), 'end');
});

test('a signal ends it between two runs, and its memory is free whatever happens', async () => {
  const abort = new AbortController();
  const stopped = fake([run([0, 1])]);
  await assert.rejects(
    traced(stopped.wasm, 'decode', { signal: abort.signal, onProgress: ({ done }) => done === 2 && abort.abort() }),
    { code: 'cancelled' },
  );
  assert.deepEqual(stopped.calls, ['trace decode 0', 'run', 'run', 'end']);
  const failed = fake([], () => Promise.reject(new RlxError('out_of_memory', 'no room')));
  await assert.rejects(traced(failed.wasm, 'decode', {}), { code: 'out_of_memory' });
  assert.deepEqual(failed.calls, ['trace decode 0', 'end']);
});

test('options that are wrong are usage, before anything is asked for', async () => {
  for (const options of [{ past: -1 }, { past: 1.5 }, { runs: 0 }, { runs: 1001 }, { milliseconds: NaN }, { past: '3' as unknown as number }]) {
    const { wasm, calls } = fake([]);
    await assert.rejects(traced(wasm, 'decode', options), { code: 'usage', at: Object.keys(options)[0] });
    assert.deepEqual(calls, []);
  }
});

test('each dispatch of a timed submission has a pass of its own, which notes its begin and its end', async () => {
  const encoded: string[] = [];
  const pass = {
    setPipeline: () => {}, setBindGroup: () => {},
    dispatchWorkgroups: () => encoded.push('dispatch'), end: () => encoded.push('end'),
  };
  const encoder = {
    beginComputePass: (of?: GPUComputePassDescriptor) => {
      const writes = of?.timestampWrites;
      encoded.push(writes ? `pass ${writes.beginningOfPassWriteIndex} ${writes.endOfPassWriteIndex}` : 'pass');
      return pass;
    },
    copyBufferToBuffer: (...args: unknown[]) => encoded.push(`copy ${String(args.at(-1))}`),
    resolveQuerySet: (...args: unknown[]) => encoded.push(`resolve ${String(args[2])}`),
    finish: () => ({}),
  };
  const times = BigUint64Array.of(10n, 20n, 20n, 50n);
  const buffer = { destroy: () => {}, mapAsync: async () => {}, getMappedRange: () => times.buffer, unmap: () => {} };
  const device = {
    queue: { submit: () => encoded.push('submit') }, lost: new Promise(() => {}), limits: {}, features: new Set(['timestamp-query']),
    createBuffer: () => buffer, createQuerySet: () => ({ destroy: () => {} }), createCommandEncoder: () => encoder,
    pushErrorScope: () => {}, popErrorScope: async () => ({ message: 'no' }), createShaderModule: () => {},
    createBindGroupLayout: () => ({}), createBindGroup: () => ({}), createPipelineLayout: () => ({}), createComputePipelineAsync: async () => ({}),
  };
  const gpu = { requestAdapter: async () => ({ features: new Set(), limits: {}, info: {}, requestDevice: async () => device }) };
  const host = await GpuHost.create(gpu as unknown as GPU);
  await host.createPipeline(1, '', 'main', new Uint32Array());
  host.createBindGroup(2, new Uint32Array(), new Float64Array());
  host.record(3, Uint32Array.of(1, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1));
  host.submit(Uint32Array.of(3));
  assert.deepEqual(encoded.splice(0), ['pass', 'dispatch', 'dispatch', 'end', 'submit']);
  const timer = new GpuTimes(host);
  const bytes = await timer.submit(Uint32Array.of(3));
  assert.deepEqual([...new BigUint64Array(bytes.buffer)], [10n, 20n, 20n, 50n]);
  assert.deepEqual(encoded, ['pass 0 1', 'dispatch', 'end', 'pass 2 3', 'dispatch', 'end', 'resolve 4', 'copy 32', 'submit']);
  timer.dispose();
});
