// A GPU whose optional features compute wrong values, in a page: they are not used, and answers are the
// recorded ones.

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

const DOT = 'packed_4x8_integer_dot_product';

let server, browser, page, logs;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/models/': join(root, 'models'), '/tests/': join(root, 'tests') } });
  browser = await launch();
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** Loads on a GPU with these changes to its shaders, asks the question, and says what was told. */
function attempt(changes, device = 'auto') {
  return page.evaluate(async ({ model, changes, device, question, maxTokens }) => {
    const { Engine } = await import('/dist/index.js');
    const { differences } = await import('/support/parity.mjs');
    const { faultyGpu } = await import('/support/faulty_gpu.mjs');
    const notices = [];
    const onNotice = (notice) => notices.push(notice);
    try {
      const gpu = faultyGpu(navigator.gpu, changes);
      const engine = await Engine.load({ model, device, gpu, onNotice, cache: false, threads: 1 });
      const found = await differences(engine, [question], maxTokens);
      const info = engine.info();
      engine.dispose();
      return { found, info, notices };
    } catch ({ code, what, hint }) {
      return { error: { code, what, hint }, notices };
    }
  }, { model: testCase.model.map(atServer), changes, device, question, maxTokens: expected.max_new_tokens });
}

test('a GPU that computes what it should keeps its features', async () => {
  const { found, info, notices } = await attempt([]);
  assert.deepEqual(found, []);
  assert.equal(info.device, 'webgpu');
  assert.ok(info.features.includes(DOT), `${info.features}`);
  assert.deepEqual([info.demoted, notices], [[], []]);
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

test('nothing of all this was an uncaught error', () => assert.deepEqual(logs.filter((line) => line.startsWith('uncaught')), []));
