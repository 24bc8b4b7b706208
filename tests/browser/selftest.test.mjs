// A GPU that computes wrong values, in a page: features that do are not used, one that does without them is
// not either, and answers are the recorded ones. What was found is remembered.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { questionsOf } from '../support/parity.mjs';
import { atServer, casesFor, launch, mounts, openPage, root, startServer } from './harness.mjs';

const json = (path) => JSON.parse(readFileSync(join(root, path), 'utf8'));
const greedy = casesFor(json('tests/parity/cases.json'), 'greedy', { name: 'page-webgpu' });
const testCase = greedy.find(({ name }) => name === 'rustdoc-2m q4_k_m');
const expected = json(testCase.expected);
const [question] = questionsOf(testCase, expected, 'page-webgpu');

/** Tokens of an answer: SwiftShader makes a few in a second, and lavapipe natively is asked for all. */
const TOKENS = 8;

const DOT = 'packed_4x8_integer_dot_product';

let server, browser, page, logs;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/models/': join(root, 'models'), '/tests/': join(root, 'tests') } });
  browser = await launch();
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`, { oneDevice: true, contest: false }));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/**
 * Loads on a GPU with these changes to its shaders, asks the question, and says what was told; `kept` leaves
 * what the last load found.
 */
function attempt(changes, { device = 'auto', kept = false, activations = 'int16/int8' } = {}) {
  return page.evaluate(async ({ model, changes, device, kept, activations, question, maxTokens }) => {
    const { Engine } = await import('/dist/index.js');
    const { differences } = await import('/support/parity.mjs');
    const { faultyGpu } = await import('/support/faulty_gpu.mjs');
    const { asHardware } = await import('/support/hardware_gpu.mjs');
    const notices = [];
    const onNotice = (notice) => notices.push(notice);
    const phases = new Set();
    const onProgress = ({ phase }) => phases.add(phase);
    if (!kept) localStorage.removeItem('rlx.checks');
    try {
      const gpu = faultyGpu(asHardware(navigator.gpu), changes);
      const engine = await Engine.load({ model, device, gpu, onNotice, onProgress, activations, cache: false, threads: 1 });
      const found = await differences(engine, [question], maxTokens);
      const info = engine.info();
      engine.dispose();
      return { found, info, notices, checked: phases.has('check') };
    } catch ({ code, what, hint }) {
      return { error: { code, what, hint }, notices };
    }
  }, { model: testCase.model.map(atServer), changes, device, kept, activations, question, maxTokens: TOKENS });
}

test('a GPU that computes what it should keeps its features, and is compared with the CPU once', async () => {
  for (const first of [true, false]) {
    const { found, info, notices, checked } = await attempt([], { kept: !first });
    assert.deepEqual(found, []);
    assert.equal(info.device, 'webgpu');
    assert.ok(info.features.includes(DOT), `${info.features}`);
    assert.deepEqual([info.demoted, notices, checked], [[], [], first]);
  }
  const kept = await page.evaluate(() => Object.entries(JSON.parse(localStorage.getItem('rlx.checks'))));
  assert.equal(kept.length, 1);
  assert.match(kept[0][0], /^tests hardware; ; rlx \d+\.\d+\.\d+, kernels \d+; kernels [0-9a-f]{16}$/i);
  assert.equal(kept[0][1], 'sound');
});

for (const [name, changes, why] of [
  ['wrong by itself', [['dot4I8Packed(a, b)', 'i32(dot4U8Packed(a, b))'], ['dot4I8Packed(b[thread]', 'i32(1) + dot4I8Packed(b[thread]']], /^a probe /],
  ['refused by the driver', [['dot4I8Packed(', 'dot4I8Packet(']], /^the GPU driver refused a kernel/],
]) {
  test(`a product of bytes that is ${name} is not used`, async () => {
    const { found, info, notices, error } = await attempt(changes);
    assert.equal(error, undefined);
    assert.deepEqual(found, []);
    assert.equal(info.device, 'webgpu');
    assert.ok(!info.features.includes(DOT), `${info.features}`);
    assert.equal(info.demoted.length, 1);
    assert.match(info.demoted[0].slice(DOT.length + 2), why);
    assert.deepEqual(notices.map(({ code }) => code), ['kernels_demoted']);
    assert.ok(notices[0].message.includes(DOT));
  });
}

test('a feature that only whole kernels show to be wrong is not used, at the next load without another look', async () => {
  for (const first of [true, false]) {
    const wrong = [['return dot4I8Packed(a, b);', 'return dot4I8Packed(a, b >> 1u);']];
    const { found, info, notices, checked, error } = await attempt(wrong, { kept: !first });
    assert.equal(error, undefined);
    assert.deepEqual(found, []);
    assert.equal(info.device, 'webgpu');
    assert.ok(!info.features.includes(DOT), `${info.features}`);
    assert.equal(info.demoted.length, 1);
    assert.match(info.demoted[0], new RegExp(`^${DOT}: logits of .* are off by \\d+ %$`));
    assert.deepEqual([notices.map(({ code }) => code), checked], [['kernels_demoted'], first]);
  }
});

test('where a GPU is wrong whatever it does without, auto takes the CPU', async () => {
  // Of a type that the CPU multiplies too.
  const { found, info, notices } = await attempt([['a.y * b.x + a.x * b.y);', 'a.y * b.x - a.x * b.y);']], { activations: 'int8' });
  assert.deepEqual(found, []);
  assert.equal(info.device, 'cpu');
  assert.match(info.fallbackReason, /tests hardware.* computes wrong values: logits of .* are off by \d+ %$/i);
  assert.deepEqual(notices, []);
});

test('nothing of all this was an uncaught error', () => assert.deepEqual(logs.filter((line) => line.startsWith('uncaught')), []));
