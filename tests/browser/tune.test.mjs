// Shapes of kernels, measured in a page and kept for its origin: later loads use them and answer as before.

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

let server, browser, page;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/models/': join(root, 'models'), '/tests/': join(root, 'tests') } });
  browser = await launch();
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** What a load on WebGPU says of its tuning, and how its answer differs from what is recorded. */
function load(options = {}) {
  return page.evaluate(async ({ model, options, question, maxTokens }) => {
    const { Engine } = await import('/dist/index.js');
    const { differences } = await import('/support/parity.mjs');
    try {
      const engine = await Engine.load({ model, device: 'webgpu', cache: false, ...options });
      const found = await differences(engine, [question], maxTokens);
      const { tuning } = engine.info();
      engine.dispose();
      return { found, tuning };
    } catch ({ code, what, at }) {
      return { error: { code, what, at } };
    }
  }, { model: testCase.model.map(atServer), options, question, maxTokens: expected.max_new_tokens });
}

const kept = () => page.evaluate(() => JSON.parse(localStorage.getItem('rlx.tunings')));

test('a tuning is measured, kept for the origin, and used by loads', async () => {
  const { tuned, shares } = await page.evaluate(async () => {
    const { Engine } = await import('/dist/index.js');
    const { faultyGpu } = await import('/support/faulty_gpu.mjs');
    const shares = [];
    // What binds so little has one class of matrices: a run of all takes software GPUs minutes.
    const gpu = faultyGpu(navigator.gpu, [], { maxStorageBufferBindingSize: 5 << 20 });
    return { tuned: await Engine.tune({ gpu, onProgress: (share) => shares.push(share) }), shares };
  });
  assert.equal(shares[0], 0);
  assert.equal(shares.at(-1), 1);
  assert.deepEqual(shares.toSorted((a, b) => a - b), shares);
  assert.equal(tuned.kept, true);
  const [[key, text]] = Object.entries(await kept());
  assert.equal(text, tuned.tuning);
  assert.ok(key.startsWith(`${tuned.adapter}; `) && /; rlx \d+\.\d+\.\d+$/.test(key), key);

  // Another one in its place, as if it had been the fastest.
  const other = text.replace(/parts=\d+/, text.endsWith('parts=64') ? 'parts=512' : 'parts=64');
  await page.evaluate((entry) => localStorage.setItem('rlx.tunings', JSON.stringify(entry)), { [key]: other });
  assert.deepEqual(await load(), { found: [], tuning: other });
  const { error } = await load({ tuning: 'short=1x1' });
  assert.deepEqual(error, { code: 'usage', what: '`short=1x1` is no tuning of this device', at: 'tuning' });

  // What another version kept is ignored.
  await page.evaluate((entry) => localStorage.setItem('rlx.tunings', JSON.stringify(entry)), { [key]: 'short=1x1' });
  const { tuning } = await load();
  assert.match(tuning, /^short=\d+x\d+ .* parts=256$/);
});

test('a page whose WebGPU gives no adapter is told so', async () => {
  const error = await page.evaluate(async () => {
    const { Engine } = await import('/dist/index.js');
    const gpu = { requestAdapter: async () => null, wgslLanguageFeatures: new Set() };
    return Engine.tune({ gpu }).then(() => null, ({ code, what }) => ({ code, what }));
  });
  assert.deepEqual(error, { code: 'device_unavailable', what: 'WebGPU has no adapter for this machine' });
});
