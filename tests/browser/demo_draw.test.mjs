// The demo's view that draws: what is saved is what the command line draws of the same words and seed, a picture can be
// stopped within a step, and nothing leaves the page.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { faults, SMALL, startDemo } from './demo_pages.mjs';
import { rlxBinary, root } from './harness.mjs';

const PROMPT = 'A fox over the brook';

let demo, page, logs, folder;
const elsewhere = [];
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rlx-draw-'));
  demo = await startDemo({ webgpu: true });
  ({ page, logs } = await demo.open(`${SMALL}#draw`, { viewport: { width: 1280, height: 900 } }));
  page.setDefaultTimeout(180_000); // a GPU in software compiles the kernels of three models
  page.context().on('request', (request) => {
    if (!request.url().startsWith(demo.server.url) && !/^(blob|data):/.test(request.url()))
      elsewhere.push(request.url());
  });
});
after(async () => {
  await demo?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function loadModel(address) {
  if (!(await page.locator('#model-address').isVisible())) await page.locator('.need summary').first().click();
  await page.locator('#model-address').fill(address);
  await page.locator('#model-address').press('Enter');
}

/** Fills the form. */
async function wish({ prompt = PROMPT, ...numbers }) {
  await page.locator('#draw-prompt').fill(prompt);
  for (const [name, value] of Object.entries(numbers)) await page.locator(`#draw-${name}`).fill(String(value));
}

/** The pixels of a file that the browser reads. */
const pixelsOf = (path) =>
  page.evaluate(async (file) => {
    const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(file), (letter) => letter.charCodeAt(0))]));
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
    context.drawImage(bitmap, 0, 0);
    return [bitmap.width, bitmap.height, ...context.getImageData(0, 0, bitmap.width, bitmap.height).data];
  }, readFileSync(path).toString('base64'));

test('nothing is fetched before a button is pressed; what is no pipeline is told', async () => {
  await page.locator('#draw-fetch').waitFor();
  assert.match(await page.locator('#draw-fetch').textContent(), /about 16 GB/);
  assert.equal(await page.locator('#draw-go').isDisabled(), true);
  await loadModel('fixtures/vit/');
  await page.locator('#draw-model-error').waitFor();
  await loadModel('fixtures/flux2_klein/');
  await page.locator('#draw-ready').waitFor();
  assert.match(await page.locator('#draw-ready').textContent(), /draws on the GPU/);
  assert.equal(await page.locator('#draw-model-error').count(), 0);
});

test('what is saved is what the command line draws', async () => {
  await wish({ width: 28, height: 20, steps: 3, seed: 7 });
  await page.locator('#draw-preview').check();
  await page.locator('#draw-prompt').press('Enter');
  await page.locator('#draw-done').waitFor();
  assert.match(await page.locator('#draw-done').textContent(), /^28 by 20 pixels, 3 steps, seed 7, in /);
  assert.equal(await page.locator('#draw-canvas').getAttribute('aria-label'), `A picture of: ${PROMPT}`);
  const coming = page.waitForEvent('download');
  await page.locator('#draw-save').click();
  const download = await coming;
  assert.equal(download.suggestedFilename(), 'A fox over the brook, 7.png');
  const out = join(folder, 'native.png');
  const model = join(root, 'tests/fixtures/flux2_klein');
  const args = ['--model', model, '--device', 'cpu', '--size', '28x20', '--steps', '3', '--seed', '7', '--out', out];
  execFileSync(rlxBinary(), ['imagine', ...args, PROMPT]);
  const [got, want] = [await pixelsOf(await download.path()), await pixelsOf(out)];
  assert.deepEqual(got.slice(0, 2), [28, 20]);
  assert.ok(got.every((x, i) => Math.abs(x - want[i]) <= 1));
  assert.ok(got.filter((x, i) => x !== want[i]).length <= want.length / 50);
});

test('a seed by chance is told and can be kept; sizes that the model has not are told before it begins', async () => {
  await page.locator('#draw-preview').uncheck();
  await wish({ width: 16, height: 12, steps: '', seed: '' });
  await page.locator('#draw-go').click();
  await page.locator('#draw-done').filter({ hasText: '16 by 12 pixels, 4 steps, seed' }).waitFor();
  const [, seed] = /seed (\d+)/.exec(await page.locator('#draw-done').textContent());
  await page.locator('#draw-keep').click();
  assert.equal(await page.locator('#draw-seed').inputValue(), seed);
  await wish({ width: 18 });
  await page.locator('#draw-go').click();
  assert.equal(await page.locator('#draw-width').evaluate((field) => field.validity.stepMismatch), true);
  assert.equal(await page.locator('#draw-stop').count(), 0);
});

test('a picture can be stopped, and the next one is drawn', async () => {
  await wish({ width: 16, height: 12, steps: 1000, seed: 1 });
  await page.locator('#draw-go').click();
  await page
    .locator('#draw-told')
    .filter({ hasText: /Step \d+ of 1000/ })
    .waitFor();
  await page.locator('#draw-stop').click();
  assert.equal(await page.locator('#draw-told').count(), 0);
  await wish({ steps: 1 });
  await page.locator('#draw-go').click();
  await page.locator('#draw-done').filter({ hasText: '1 step, seed 1' }).waitFor();
  assert.deepEqual(elsewhere, []);
  assert.deepEqual(faults(logs), []);
});
