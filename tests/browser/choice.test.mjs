// The activation types of a model on a GPU that says that it is hardware: timed once for an origin, unless an option
// names them; `info()` says what was timed.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const MODEL = '/fixtures/gguf/llama-q4_k_m.gguf';

let server, browser, page, logs;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch();
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`, { oneDevice: true }));
  await page.evaluate(async (model) => {
    const [{ Engine }, { asHardware }] = await Promise.all(['/dist/index.js', '/support/hardware_gpu.mjs'].map((path) => import(path)));
    globalThis.t = {
      async load({ simulated = false, ...options } = {}) {
        const gpu = simulated ? navigator.gpu : asHardware(navigator.gpu);
        const engine = await Engine.load({ model, device: 'webgpu', cache: false, gpu, ...options });
        await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 4 });
        const info = engine.info();
        await engine[Symbol.asyncDispose]();
        return info;
      },
    };
  }, MODEL);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const load = (options) => page.evaluate((options) => t.load(options), options);
const times = () => page.evaluate(() => Object.entries(JSON.parse(localStorage.getItem('rlx.times') ?? '{}')));
const write = (key, text) => page.evaluate(([key, text]) => localStorage.setItem('rlx.times', JSON.stringify({ [key]: text })), [key, text]);
/** The type that these times choose. */
const faster = (usual, [own, floats]) => (own <= 0.95 * floats ? usual : 'f32');
const either = (decode, prompts) => (decode === prompts ? decode : `${decode}/${prompts}`);
const both = (types) => (types.includes('/') ? types.split('/') : [types, types]);
/** What is recommended on WebGPU. */
let recommended;

test('a GPU is timed for a model once, and the faster types are taken', { timeout: 240_000 }, async () => {
  ({ activations: recommended } = await load({ simulated: true }));
  const first = await load();
  const { from, decodeMs, promptMs } = first.activationTimes;
  assert.deepEqual([from, first.activationTimes.recommended], ['measured', recommended]);
  for (const ms of [...decodeMs, ...promptMs]) assert.ok(ms > 0, JSON.stringify(first.activationTimes));
  console.log(`# ${first.adapter}: ${JSON.stringify(first.activationTimes)}`);
  const [[key, text], ...more] = await times();
  assert.deepEqual(more, []);
  assert.match(key, /^tests hardware; ; rlx \d+\.\d+\.\d+, kernels \d+; .*; llama32 2 layers /i);
  const read = text.split(' ').map((ns) => Number(ns) / 1e6);
  assert.equal(first.activations, either(faster(both(recommended)[0], decodeMs), faster(both(recommended)[1], promptMs)));

  const second = await load();
  assert.deepEqual(second.activationTimes, { from: 'remembered', recommended, decodeMs: read.slice(0, 2), promptMs: read.slice(2) });
  assert.equal(second.activations, first.activations);
});

test('decode and prompts have what is remembered for each', { timeout: 240_000 }, async () => {
  const [[key]] = await times();
  const [decode, prompts] = both(recommended);
  for (const [text, want] of [['1000 2000 2000 1000', `${decode}/f32`], ['2000 1000 1000 2000', `f32/${prompts}`]]) {
    await write(key, text);
    const { activations, activationTimes } = await load();
    assert.deepEqual([activations, activationTimes.from], [want, 'remembered']);
  }
});

test('what is kept and is no times is measured again', { timeout: 240_000 }, async () => {
  const [[key]] = await times();
  await write(key, '1 2 <b>');
  assert.equal((await load()).activationTimes.from, 'measured');
  assert.match((await times())[0][1], /^\d+ \d+ \d+ \d+$/);
});

test('an option wins, and a GPU in software is not timed', { timeout: 240_000 }, async () => {
  for (const [options, want] of [[{ activations: 'f32' }, 'f32'], [{ activations: 'int8' }, 'int8'], [{ simulated: true }, recommended], [{ device: 'cpu' }, 'int8']]) {
    const { activations, activationTimes } = await load(options);
    assert.deepEqual([activations, activationTimes], [want, null], JSON.stringify(options));
  }
});

test('nothing of it is an error that nobody catches', () => {
  assert.deepEqual(logs.filter((line) => line.startsWith('uncaught')), []);
});
