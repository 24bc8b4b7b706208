// `inspection.trace`: when each kernel of a program ran, by the GPU's clock.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { caller, launch, mounts, openPage, root, startServer } from './harness.mjs';

const SMALL = '/tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf';
const BERT = '/tests/fixtures/bert/bert.gguf';

let server, browser, page;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/tests/': join(root, 'tests') } });
  browser = await launch();
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async () => {
    const { inspect } = await import('/dist/inspect.js');
    const { RlxError } = await import('/dist/index.js');
    const fault = (error) => ({ typed: error instanceof RlxError, code: error.code, what: error.what, hint: error.hint });
    globalThis.t = { inspect, fault };
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});
const call = caller(() => ({ page, logs: [] }));

test('every kernel of a step is timed once, under the names of the listing, and together they take about the step', { timeout: 120_000 }, async () => {
  const { trace, kernels, bytes, again } = await call(async (model) => {
    const inspection = t.inspection = await t.inspect({ model, device: 'webgpu' });
    const { kernels, weightBytes, stateBytes, arenaBytes } = inspection.program('decode');
    const trace = await inspection.trace('decode', { past: 100, runs: 3 });
    const again = await inspection.trace('decode', { runs: 1 });
    return { trace, kernels, bytes: weightBytes + stateBytes + arenaBytes, again: again.launches.length };
  }, SMALL);
  const { launches, ms, clockMs, ...about } = trace;
  assert.deepEqual(about, { program: 'decode', past: 100, rows: 1, runs: 3, bytes });
  const launched = kernels.steps.flatMap(({ label, operator, shader }, step) => (shader === null ? [] : [[step, label, operator]]));
  assert.deepEqual(launches.map(({ step, label, operator }) => [step, label, operator]), launched);
  for (const { kernel, step } of launches) assert.match(kernels.shaders[kernels.steps[step].shader], new RegExp(`fn ${kernel}\\b`));
  const busy = launches.reduce((sum, launch) => sum + launch.ms, 0);
  console.log(`a step of ${ms.toFixed(2)} ms, ${busy.toFixed(2)} ms of it in ${launches.length} kernels; the clock's step ${clockMs} ms`);
  assert.ok(ms > 0 && clockMs > 0);
  assert.ok(busy > ms / 2 && busy <= ms * 1.01, 'kernels do not overlap, and there is little between them');
  assert.ok(launches.every(({ readBytes, writtenBytes }) => readBytes + writtenBytes > 0));
  assert.ok(launches.find(({ label }) => label === 'lm_head').readBytes > 400_000, 'the head reads its weights');
  assert.equal(again, launches.length);
});

test('an entry of another network is timed too', { timeout: 60_000 }, async () => {
  const { rows, launches } = await call(async (model) => {
    const inspection = await t.inspect({ model, device: 'webgpu' });
    const trace = await inspection.trace('encode', { runs: 1 });
    inspection.dispose();
    return trace;
  }, BERT);
  assert.equal(rows, 1);
  assert.ok(launches.length > 10 && launches.every(({ ms }) => ms >= 0));
});

test('what cannot be timed is an error by name, and a trace that is ended leaves the next one room', { timeout: 60_000 }, async () => {
  const faults = await call(async (model) => {
    const faults = {};
    const note = async (name, promise) => (faults[name] = await promise.then(() => null, t.fault));
    const cpu = await t.inspect({ model, device: 'cpu' });
    await note('cpu', cpu.trace('decode'));
    cpu.dispose();
    // A browser without the feature.
    const without = (object, more) => new Proxy(object, {
      get: (of, name) => name in more ? more[name] : typeof of[name] === 'function' ? of[name].bind(of) : of[name],
    });
    const gpu = without(navigator.gpu, {
      requestAdapter: async (options) => {
        const adapter = await navigator.gpu.requestAdapter(options);
        const features = new Set([...adapter.features].filter((name) => name !== 'timestamp-query'));
        return without(adapter, { features });
      },
    });
    const old = await t.inspect({ model, device: 'webgpu', gpu });
    await note('old', old.trace('decode'));
    old.dispose();
    const { inspection } = t;
    await note('none', inspection.trace('nothing'));
    await note('past', inspection.trace('decode', { past: 1e6 }));
    const abort = new AbortController();
    const ended = inspection.trace('decode', { runs: 1000, milliseconds: 60_000, signal: abort.signal, onProgress: () => abort.abort() });
    await note('two', inspection.trace('decode'));
    await note('ended', ended);
    const last = inspection.trace('decode', { runs: 1000, milliseconds: 60_000, onProgress: () => inspection.dispose() });
    await note('disposed', last);
    return faults;
  }, SMALL);
  assert.ok(Object.values(faults).every((fault) => fault?.typed), JSON.stringify(faults));
  const codes = Object.fromEntries(Object.entries(faults).map(([name, { code }]) => [name, code]));
  assert.deepEqual(codes, { cpu: 'unsupported', old: 'unsupported', none: 'usage', past: 'usage', two: 'usage', ended: 'cancelled', disposed: 'disposed' });
  assert.match(faults.old.what + faults.old.hint, /no timestamp queries.*timestamp-query/);
  assert.match(faults.past.what, /there is room for \d+/);
});
