// Shapes of kernels, measured in a page and kept for its origin: later loads use them and answer as before.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { questionsOf } from '../support/parity.mjs';
import { atServer, casesFor, launch, mounts, openPage, root, screenshots, startServer } from './harness.mjs';

const json = (path) => JSON.parse(readFileSync(join(root, path), 'utf8'));
const greedy = casesFor(json('tests/parity/cases.json'), 'greedy', { name: 'page-webgpu' });
const testCase = greedy.find(({ name }) => name === 'rustdoc-2m q4_k_m');
const expected = json(testCase.expected);
const [question] = questionsOf(testCase, expected, 'page-webgpu');

let server, browser, page, context, logs;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/models/': join(root, 'models'), '/tests/': join(root, 'tests'), '/demo/': join(root, 'www/dist') } });
  browser = await launch();
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

/** The demo's view that measures. What binds so little has one class of matrices: all take software GPUs minutes. */
async function measuringPage() {
  const model = '../tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf';
  const opened = await openPage(browser, `${server.url}/pages/empty.html`, { permissions: ['clipboard-read', 'clipboard-write'] });
  await opened.page.addInitScript(() => {
    if (location.hash !== '#benchmark') return;
    const { get } = Object.getOwnPropertyDescriptor(GPUDevice.prototype, 'limits');
    const few = { maxStorageBufferBindingSize: 5 << 20 };
    const limited = (limits) => new Proxy(limits, { get: (of, name) => few[name] ?? of[name] });
    Object.defineProperty(GPUDevice.prototype, 'limits', { get() { return limited(get.call(this)); } });
  });
  await opened.page.setViewportSize({ width: 360, height: 740 });
  await opened.page.goto(`${server.url}/demo/?device=cpu&model=${model}#benchmark`);
  await opened.page.locator('#measure').waitFor();
  return opened;
}

test('the measuring page shows a report, and keeps the tuning for the origin, which loads use', { timeout: 240_000 }, async () => {
  ({ page, context, logs } = await measuringPage());
  const wide = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(await wide() <= 0, `${await wide()} px too wide`);
  await page.locator('#measure').click();
  await page.locator('#device-results, #device-error').waitFor({ timeout: 200_000 });
  assert.equal(await page.locator('#device-error').count(), 0);
  assert.ok(await wide() <= 0, `with results ${await wide()} px too wide`);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'device-results');
  assert.match(await page.locator('#device-summary').textContent(), /^There is no GPU that this browser may use.* stored for this site\.$/);
  assert.match(await page.locator('#device').textContent(), /GPU.*\(software: .*GB\/s/s);
  assert.equal(await page.locator('caption').count(), 2);
  assert.equal(await page.locator('.chosen', { hasText: '(taken)' }).count(), 2);

  const report = JSON.parse(await page.locator('#device-json').textContent());
  const recorded = json('tests/fixtures/devices/page.json'); // rlx-native's tests read it
  assert.deepEqual(Object.keys(report), Object.keys(recorded));
  const { date, system, target, copy_bytes_per_second: rate, tuning: text, choices, ...rest } = report;
  const { adapter, subgroups, features } = rest;
  assert.deepEqual(rest, {
    format: 'rlx-device-report', version: 1, rlx: recorded.rlx, kernels: recorded.kernels, from: 'page', adapter, driver: '', software: true,
    features, demoted: [], subgroups, forms: [],
  });
  assert.match(date, /^\d{4}-\d\d-\d\d$/);
  assert.match(system, /Chrome\//);
  assert.match(target, /^webgpu buffer=\d+ binding=5242880 /);
  assert.ok(rate > 1e6, `${rate} bytes a second`);
  assert.deepEqual(Object.entries(choices).map(([name, tried]) => [name, Object.keys(tried).length]), [['short', 7], ['parts', 4]]);
  for (const ms of Object.values(choices).flatMap((tried) => Object.values(tried))) assert.ok(ms > 0);
  await page.locator('.device .share summary').click();
  await page.getByRole('button', { name: 'Copy the device’s report' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.deepEqual(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())), report);
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download' }).click()]);
  assert.deepEqual(JSON.parse(readFileSync(await download.path(), 'utf8')), report);
  await screenshots(page, 'devices');
  assert.deepEqual(logs.filter((line) => /^(error|uncaught)/.test(line)), []);

  // How fast memory is copied is asked alone, too, in a moment.
  await page.goto(`${server.url}/pages/empty.html`);
  const copies = await page.evaluate(async () => (await import('/dist/index.js')).Engine.copyRate());
  assert.equal(copies.adapter, adapter);
  assert.ok(copies.bytesPerSecond > 1e6, `${copies.bytesPerSecond} bytes a second`);
  const [[key, found]] = Object.entries(await kept());
  assert.equal(found, text);
  assert.ok(key.startsWith(`${adapter}; `) && /; rlx \d+\.\d+\.\d+, kernels \d+$/.test(key), key);

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
    const told = ({ code, what }) => ({ code, what });
    return Promise.all([Engine.tune, Engine.copyRate].map((measure) => measure({ gpu }).then(() => null, told)));
  });
  const none = { code: 'device_unavailable', what: 'WebGPU has no adapter for this machine' };
  assert.deepEqual(error, [none, none]);
});
