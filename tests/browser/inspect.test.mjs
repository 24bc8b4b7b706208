// `rlx-wasm/inspect`: programs at every stage, from headers alone, as the command line prints them. That an engine runs
// the same ones is shown by `parity.test.mjs`.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { caller, launch, mounts, openPage, rlxBinary, root, startServer } from './harness.mjs';

const SMALL = 'tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf';
const SHARDS = [1, 2, 3].map((i) => `models/rustdoc-29m/rustdoc-29m-q4_k_m-0000${i}-of-00003.gguf`);

let server, browser, page;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/models/': join(root, 'models'), '/tests/': join(root, 'tests') } });
  browser = await launch();
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async () => {
    const { inspect } = await import('/dist/inspect.js');
    const { RlxError } = await import('/dist/index.js');
    const fault = (error) => ({ typed: error instanceof RlxError, code: error.code, what: error.what, at: error.at, hint: error.hint });
    globalThis.t = { inspect, fault };
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});
const call = caller(() => ({ page, logs: [] }));

/** What the command line prints of a program for a target, options as in the page. */
function printed(model, stage, phase, { target, kv, activations }) {
  const args = ['inspect', join(root, model), '--stage', stage, '--phase', phase, '--json', '--target', target, '--kv', kv, '--activations', activations];
  return JSON.parse(execFileSync(rlxBinary(), args, { encoding: 'utf8', maxBuffer: 1 << 28 }));
}

for (const device of ['cpu', 'webgpu']) {
  test(`${device}: every stage of a language model is what the command line prints`, { timeout: 300_000 }, async () => {
    const kv = 'f16', activations = device === 'cpu' ? 'int8' : 'int16/int8';
    const { target, programs, decode, ...about } = await call(async ({ model, device, kv, activations }) => {
      const inspection = await t.inspect({ model, device, kv, activations });
      const { target, programs, model: facts, device: on, fallbackReason } = inspection;
      const decode = inspection.program('decode');
      inspection.dispose();
      const after = await Promise.resolve().then(() => inspection.program('decode')).catch(t.fault);
      return { target, programs, facts, on, fallbackReason, decode, after };
    }, { model: `/${SMALL}`, device, kv, activations });
    assert.equal(about.on, device);
    assert.equal(about.fallbackReason, null);
    assert.equal(about.facts.family, 'llama32');
    assert.equal(about.after.code, 'disposed');
    assert.deepEqual(programs.slice(0, 3), ['decode', 'prefill', 'prefill_last']);
    const told = { target, kv, activations };
    const lir = printed(SMALL, 'lir', 'decode', told);
    assert.equal(decode.fingerprint, lir.fingerprint);
    assert.deepEqual([decode.steps, decode.weightBytes, decode.arenaBytes], [lir.steps, lir.weight_bytes, lir.activation_bytes]);
    assert.deepEqual(decode.fusion, lir.fusion);
    assert.equal(decode.mir, printed(SMALL, 'mir', 'decode', told).text);
    assert.equal(decode.hir, printed(SMALL, 'hir', 'decode', told).text);
    assert.deepEqual(decode.dispatch, printed(SMALL, 'dispatch', 'decode', told).dispatch);
    assert.match(decode.lir, /matmul/);
    assert.match(decode.memory, /^<svg[^]*<title>[^]*<\/svg>\s*$/);
    if (device === 'cpu') return assert.equal(decode.kernels, null);
    const { shaders, steps } = decode.kernels;
    assert.equal(steps.length, decode.steps);
    assert.equal(new Set(shaders).size, shaders.length);
    const launched = steps.filter(({ shader }) => shader !== null);
    assert.deepEqual([...new Set(launched.map(({ shader }) => shader))].sort((a, b) => a - b), shaders.map((_, i) => i));
    assert.ok(launched.every(({ groups }) => groups.length === 3 && groups.every((n) => n > 0)));
    assert.ok(shaders.every((text) => /@compute/.test(text)));
  });
}

test('the headers are enough: of a model in three files little is fetched', async () => {
  // A server here would fill the connection's buffers before a reader can say that it has enough.
  for (const path of SHARDS) server.behave[`/${path}`] = { bytesPerSecond: 4 << 20 };
  const { fingerprint, weights } = await call(async (model) => {
    const inspection = await t.inspect({ model, device: 'cpu', cache: false });
    const { fingerprint, weightBytes: weights } = inspection.program('decode');
    inspection.dispose();
    return { fingerprint, weights };
  }, SHARDS.map((path) => `/${path}`));
  assert.match(fingerprint, /^[0-9a-f]{16}$/);
  const all = SHARDS.map((path) => statSync(join(root, path)).size).reduce((a, b) => a + b);
  const fetched = SHARDS.map((path) => server.sent[`/${path}`]).reduce((a, b) => a + b);
  assert.ok(weights > all / 2 && fetched < all / 4, `${fetched} of ${all} bytes`);
});

test('an encoder and a graph have their entries', async () => {
  const graph = readFileSync(join(root, 'tests/fixtures/graphs/bert.hir'), 'utf8');
  const { shown: seen, bare } = await call(async (graph) => {
    const show = async (options) => {
      const inspection = await t.inspect({ device: 'cpu', ...options });
      const [name] = inspection.programs;
      const { lir, hir, kernels } = inspection.program(name);
      const fault = await Promise.resolve().then(() => inspection.program('decode')).catch(t.fault);
      inspection.dispose();
      return { name, family: inspection.model?.family ?? null, lir: lir.length, hir: hir.slice(0, 6), kernels, fault };
    };
    const { randomWeights } = await import('/support/random_weights.mjs');
    const shown = [await show({ model: '/tests/fixtures/bert/bert.gguf' }), await show({ graph, weights: randomWeights(graph, 7) })];
    const bare = await t.inspect({ device: 'cpu', graph });
    return { shown, bare: await Promise.resolve().then(() => bare.program(bare.programs[0])).catch(t.fault) };
  }, graph);
  assert.deepEqual([bare.code, bare.hint], ['bad_file', 'give the file that has it as `weights`']);
  assert.deepEqual(seen.map(({ name, family }) => [name, family]), [['encode', 'bert'], [seen[1].name, null]]);
  for (const { lir, hir, kernels, fault } of seen) {
    assert.ok(lir > 1000);
    assert.equal(hir, 'module');
    assert.equal(kernels, null);
    assert.deepEqual([fault.typed, fault.code, fault.what], [true, 'usage', 'there is no program decode']);
  }
});

test('what cannot be inspected is an error by name', async () => {
  const faults = await call(async (model) => {
    const fault = (options) => t.inspect(options).then(() => null, t.fault);
    return [
      await fault({ model, device: 'cpu', kv: 'f64' }), await fault({ model, threads: 2 }), await fault({ model, graph: 'func' }),
      await fault({ model: new Blob(['no model at all']), device: 'cpu' }), await fault({ model: '/tests/none.gguf', device: 'cpu' }),
      await fault({ model, device: 'cpu', signal: AbortSignal.abort() }),
    ];
  }, `/${SMALL}`);
  assert.ok(faults.every(({ typed }) => typed));
  assert.deepEqual(faults.map(({ code }) => code), ['usage', 'usage', 'usage', 'bad_file', 'io', 'cancelled']);
});
