// How the demo loads models: a bad file leaves the working one, a load is paused, goes on and is cancelled, what is
// stored is listed and freed, and nobody else is asked for anything.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { faults, SMALL, startDemo } from './demo_pages.mjs';
import { root } from './harness.mjs';

const FIXTURE = join(root, 'tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf');
const small = readFileSync(FIXTURE);
const slow = { bytesPerSecond: 600_000 };

let demo, page, logs, ready, ask, told;
const elsewhere = [];
before(async () => {
  // Its header is whole, and half of its weights are missing.
  demo = await startDemo({
    files: { '/slow.gguf': small, '/cut.gguf': small.subarray(0, small.length / 2) },
    behave: { '/slow.gguf': slow },
  });
  ({ page, logs, ready, ask, told } = await demo.open(SMALL, { viewport: { width: 1280, height: 800 } }));
  page.on('request', (request) => {
    if (!request.url().startsWith(demo.server.url) && !/^(blob|data):/.test(request.url()))
      elsewhere.push(request.url());
  });
  await ready();
});
after(() => demo?.close());

const model = () => page.locator('#models bdi').textContent();
const dialog = async () => {
  if (!(await page.locator('dialog').count())) await page.locator('#models').click();
  await page.locator('#stored li').first().waitFor();
};
const choose = async (address) => {
  await dialog();
  await page.locator('#model-address').fill(address);
  await page.locator('#model-address').press('Enter');
};
const loaded = (name) =>
  page.waitForFunction(
    (wanted) =>
      document.querySelector('#models bdi').textContent === wanted &&
      document.getElementById('send')?.disabled === false,
    name,
  );

test('a bad file leaves the working model', { timeout: 60_000 }, async () => {
  await dialog();
  await page
    .locator('#model-files')
    .setInputFiles({
      name: 'bad.gguf',
      mimeType: 'application/octet-stream',
      buffer: Buffer.from('GGUF and no more of it'),
    });
  await page.locator('#error').waitFor();
  assert.match(await page.locator('#error-what').textContent(), /bad\.gguf/);
  assert.equal(await model(), 'rustdoc-2m-q4_k_m');
  await ask('Are you there?');
  assert.equal(await page.locator('.message').count(), 2);
  await page.locator('#error').getByRole('button', { name: 'Dismiss' }).click();
});

test('a file that ends early is told, and the model before it is there', { timeout: 60_000 }, async () => {
  await choose(`${demo.server.url}/cut.gguf`);
  await page.locator('#error').waitFor();
  await loaded('rustdoc-2m-q4_k_m');
  await page.locator('#error').getByRole('button', { name: 'Dismiss' }).click();
});

test('a load is paused, goes on from where it was, and is cancelled', { timeout: 60_000 }, async () => {
  await choose(`${demo.server.url}/slow.gguf`);
  await page.waitForFunction(() => /MB of .*left/.test(document.getElementById('loading-text')?.textContent));
  await page.locator('#pause').click();
  assert.match(await page.locator('#loading-text').textContent(), /^Paused at [\d.]+ [kM]B of/);
  demo.server.requests.length = 0;
  delete slow.bytesPerSecond;
  await page.locator('#resume').click();
  await loaded('slow');
  assert.ok(
    demo.server.asked('/slow.gguf').some(({ range }) => range !== null && !/^bytes=0-/.test(range)),
    'it asked for the rest alone',
  );
});

test('a load that is cancelled gives the model back that was there', { timeout: 60_000 }, async () => {
  await dialog();
  await page.getByRole('button', { name: 'Free slow' }).click();
  await page.waitForFunction(() => document.querySelectorAll('#stored li').length === 1);
  await page.getByRole('button', { name: 'Load rustdoc-2m-q4_k_m from storage' }).click();
  await loaded('rustdoc-2m-q4_k_m');
  slow.bytesPerSecond = 600_000;
  await choose(`${demo.server.url}/slow.gguf`);
  await page.waitForFunction(() => /left/.test(document.getElementById('loading-text')?.textContent));
  // A question that is asked meanwhile is not lost, and the page says why it is not answered.
  await page.locator('#prompt').fill('Are you there yet?');
  await page.locator('#prompt').press('Enter');
  await page.locator('#notice p').filter({ hasText: 'The model is still loading.' }).first().waitFor();
  assert.equal(await page.locator('#prompt').inputValue(), 'Are you there yet?');
  await page.locator('#prompt').fill('');
  await page.locator('#cancel').click();
  await loaded('rustdoc-2m-q4_k_m');
  delete slow.bytesPerSecond;
});

test('whether a model fits is known from its header', { timeout: 60_000 }, async () => {
  await dialog();
  await page.locator('#model-address').fill(`${demo.server.url}/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf`);
  const own = page.locator('section', { has: page.locator('#models-own') });
  await own.getByRole('button', { name: 'Does it fit?' }).click();
  await own.locator('.fit', { hasText: 'It fits' }).waitFor();
  assert.match(
    await own.locator('.fit').textContent(),
    /^It fits: [\d.]+ MB of files, [\d.]+ MB of memory for [\d,]+ tokens, on the CPU\.$/,
  );
});

test('what is stored is listed with its bytes, and freed', { timeout: 60_000 }, async () => {
  await dialog();
  const rows = page.locator('#stored li');
  const before = await rows.count();
  const row = rows.filter({ hasText: 'fixtures/rustdoc-2m' });
  assert.match(await row.textContent(), /\d MB · used/);
  await row.getByRole('button', { name: /^Free/ }).click();
  await page.waitForFunction((count) => document.querySelectorAll('#stored li').length < count, before);
  assert.equal(await row.count(), 0);
  await page.keyboard.press('Escape');
});

test('a model that stops is loaded again by itself', { timeout: 60_000 }, async () => {
  const before = await model();
  const [worker] = page.workers();
  await worker.evaluate(() => self.close()).catch(() => {}); // it is gone before it can answer
  await told('it is loaded again');
  await loaded(before);
  await ask('Are you back?');
  assert.equal(await page.locator('.remark.fault').count(), 0);
});

test('a folder of files and files that are dropped are models too', { timeout: 60_000 }, async () => {
  await page.evaluate(async (address) => {
    const data = new DataTransfer();
    data.items.add(new File([await (await fetch(address)).blob()], 'dropped.gguf'));
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  }, '/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf');
  await loaded('dropped');
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(['A note.'], 'note.txt'));
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await page.locator('#attached', { hasText: 'note.txt' }).waitFor();
  await page.locator('#models').click();
  await page
    .locator('#model-files')
    .setInputFiles({ name: 'words.txt', mimeType: 'text/plain', buffer: Buffer.from('no weights') });
  await page.getByText('None of these files has weights').waitFor();
  await page.keyboard.press('Escape');
});

test('nobody else was asked for anything', () => {
  assert.deepEqual(elsewhere, []);
  // The server's cut file breaks a request, which Chromium writes to the console.
  assert.deepEqual(
    faults(logs).filter((line) => !/cut\.gguf|net::ERR|Failed to load resource/.test(line)),
    [],
  );
});
