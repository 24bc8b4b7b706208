// The demo on WebGPU, on a GPU in software: its views answer there, and a GPU that is lost comes back by itself.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { faults, SMALL, startDemo } from './demo_pages.mjs';

/** Milliseconds for what a GPU in software compiles. */
const PATIENCE = 300_000;

let demo, page, logs, ask, answers, ready, told;
before(async () => {
  demo = await startDemo({ webgpu: true });
  ({ page, logs, ask, answers, ready, told } = await demo.open(`${SMALL}&device=webgpu`));
  page.setDefaultTimeout(PATIENCE);
});
after(() => demo?.close());

const status = () => page.locator('#status').textContent();
const view = (name) => page.getByRole('link', { name, exact: true }).click();

test('the model answers on the GPU', { timeout: PATIENCE }, async () => {
  await ready();
  assert.match(await status(), /WebGPU: .*swiftshader/i);
  await ask('What does Vec::push do?');
  assert.ok((await answers.last().textContent()).length > 0);
  assert.equal(await page.locator('.remark.fault').count(), 0);
});

test('an answer has the form that is asked for', { timeout: PATIENCE }, async () => {
  await view('Try');
  await page.getByRole('button', { name: 'Yes or no' }).click();
  await page.locator('#form-answer').click();
  await page.locator('.part [role=status]').filter({ hasText: 'It is JSON of this form.' }).waitFor();
  const { answer } = JSON.parse(await page.locator('#form-written').textContent());
  assert.equal(typeof answer, 'boolean');
});

test('files are searched by vectors that the GPU computes', { timeout: PATIENCE }, async () => {
  await view('Search');
  await page.locator('.need summary').first().click();
  await page.locator('#model-address').fill('fixtures/bert/bert.gguf');
  await page.locator('#model-address').press('Enter');
  await page.locator('#search-ready').waitFor();
  assert.match(await page.locator('#search-ready').textContent(), /on the GPU \(.*swiftshader/i);
  const text = 'What a vector is, and what the borrow checker says of it.';
  await page.locator('#search-file').setInputFiles([{ name: 'a.md', mimeType: 'text/markdown', buffer: Buffer.from(text) }]);
  await page.locator('#search-query').fill('vector');
  await page.locator('.result').first().waitFor();
  assert.match(await page.locator('.result').first().textContent(), /borrow checker/);
});

test('a GPU that is lost comes back by itself, and what was said is still there', { timeout: PATIENCE }, async () => {
  await view('Chat');
  const cdp = await demo.browser.newBrowserCDPSession();
  cdp.send('Browser.crashGpuProcess').catch(() => {}); // its answer may not come
  await told('The GPU was lost, and it is loaded again.');
  await ready();
  assert.match(await status(), /WebGPU: .*swiftshader/i);
  const before = await answers.count();
  assert.equal(before, 1);
  await ask('Are you back?');
  assert.equal(await answers.count(), before + 1);
  assert.equal(await page.locator('.remark.fault').count(), 0);
  assert.deepEqual(faults(logs), []);
});
