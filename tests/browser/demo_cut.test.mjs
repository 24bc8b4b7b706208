// The demo's view that cuts things out of photos: what is saved is what the command line finds for the places that were
// shown, by mouse and by keys, and nothing leaves the page.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { png } from '../support/png.mjs';
import { faults, SMALL, startDemo } from './demo_pages.mjs';
import { rlxBinary, root } from './harness.mjs';

const [width, height] = [53, 37];
const rgb = Buffer.from(
  Array.from(
    { length: width * height * 3 },
    (_, i) => ((((i / 3) % width) - 26) ** 2 + (i / 3 / width - 18) ** 2 < 90 ? 200 : 40) + (i % 3) * 9,
  ),
);

let demo, page, logs, folder, photo;
const elsewhere = [];
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rlx-cut-'));
  photo = join(folder, 'wide.png');
  writeFileSync(photo, png(width, height, rgb));
  writeFileSync(join(folder, 'text.png'), 'no photo');
  demo = await startDemo();
  ({ page, logs } = await demo.open(`${SMALL}#cut`, { viewport: { width: 1280, height: 900 } }));
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

/** Clicks at a pixel of the photo. */
async function click(x, y, options) {
  const box = await page.locator('#cut-picture').boundingBox();
  await page
    .locator('#cut-picture')
    .click({ position: { x: (x / width) * box.width, y: (y / height) * box.height }, ...options });
}
const told = (text) => page.locator('#cut-told').filter({ hasText: text }).waitFor();
/** The newest prompt is answered. */
const settled = () => page.locator('#cut-picture[aria-busy=false]').waitFor();
/** What is shown of the thing, as the marks on the photo have it. */
const shown = () =>
  page.evaluate(() => {
    const numbers = (element, names) => names.map((name) => Number(element.getAttribute(name)));
    return {
      points: [...document.querySelectorAll('.picture circle')].map((each) => [
        ...numbers(each, ['cx', 'cy']),
        each.classList.contains('of') ? 1 : 0,
      ]),
      boxes: [...document.querySelectorAll('.picture rect')].map((each) =>
        numbers(each, ['x', 'y', 'width', 'height']),
      ),
    };
  });

/** Saves what is cut out: its pixels. */
async function saved() {
  const coming = page.waitForEvent('download');
  await page.locator('#cut-save').click();
  const download = await coming;
  assert.equal(download.suggestedFilename(), 'wide, cut out.png');
  const file = readFileSync(await download.path()).toString('base64');
  return page.evaluate(async (file) => {
    const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(file), (letter) => letter.charCodeAt(0))]));
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
    context.drawImage(bitmap, 0, 0);
    return [...context.getImageData(0, 0, bitmap.width, bitmap.height).data];
  }, file);
}

/** What is saved has the photo's pixels where the command line finds the thing, and none elsewhere. */
async function savesWhatIsFound() {
  const { points, boxes } = await shown();
  const args = [
    ...points.flatMap((point) => ['--point', point.join()]),
    ...boxes.flatMap(([x, y, w, h]) => ['--box', [x, y, x + w, y + h].join()]),
  ];
  const answer = execFileSync(
    rlxBinary(),
    ['segment', photo, '--model', join(root, 'tests/fixtures/sam'), '--device', 'cpu', '--json', ...args],
    { encoding: 'utf8' },
  );
  const want = JSON.parse(answer).masks[0].runs.flatMap((n, i) => Array(n).fill(i % 2));
  const rgba = await saved();
  const pixels = want.map((of, i) => (of ? [...rgb.subarray(3 * i, 3 * i + 3), 255] : [0, 0, 0, 0]));
  assert.deepEqual(rgba, pixels.flat(), args.join(' '));
  return want.join('');
}

test('nothing is fetched before a button is pressed; a model that finds nothing and a file that is no photo are told', async () => {
  await page.locator('#cut-fetch').waitFor();
  assert.match(await page.locator('#cut-fetch').textContent(), /about 375 MB/);
  await loadModel('fixtures/vit/');
  await page.locator('#cut-model-error').waitFor();
  assert.match(
    await page.locator('#cut-model-error').textContent(),
    /vit makes vectors of images.*Choose a model that finds things/,
  );
  await page.locator('#cut-file').setInputFiles(join(folder, 'text.png'));
  await page.locator('#cut-photo-error').waitFor();
  assert.match(await page.locator('#cut-photo-error').textContent(), /text.png could not be read/);
  await page.locator('#cut-file').setInputFiles(photo);
  await told('Load a model');
  assert.equal(await page.locator('#cut-photo-error').count(), 0);
  await loadModel('fixtures/sam/');
  await told('Click on a thing');
  assert.match(await page.locator('#cut-ready').textContent(), /runs on the CPU/);
  assert.match(await page.locator('#cut-chosen').textContent(), /wide.png, 53 by 37 pixels/);
});

test('a click finds a thing, another beside it changes that, and a step back is a step back', async () => {
  await click(20, 15);
  await told('Found');
  const first = await savesWhatIsFound();
  await click(48, 30, { modifiers: ['Shift'] });
  await page.locator('.picture .beside').waitFor();
  await settled();
  assert.deepEqual(
    (await shown()).points.map((point) => point[2]),
    [1, 0],
  );
  await savesWhatIsFound();
  await page.locator('#cut-undo').click();
  await settled();
  assert.equal((await shown()).points.length, 1);
  assert.equal(await savesWhatIsFound(), first);
  await page.locator('#cut-clear').click();
  await told('Click on a thing');
  assert.equal(await page.locator('#cut-save').isDisabled(), true);
});

test('a drag is a box', async () => {
  const { x, y, width: across, height: down } = await page.locator('#cut-picture').boundingBox();
  await page.mouse.move(x + across * 0.2, y + down * 0.15);
  await page.mouse.down();
  await page.mouse.move(x + across * 0.5, y + down * 0.5);
  await page.mouse.move(x + across * 0.85, y + down * 0.8);
  await page.mouse.up();
  await told('Found');
  const { points, boxes } = await shown();
  assert.deepEqual([points.length, boxes.length], [0, 1]);
  await savesWhatIsFound();
  await page.locator('#cut-clear').click();
});

test('keys do the same: a cross, points, two corners of a box', async () => {
  await page.locator('#cut-picture').focus();
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  await press('ArrowLeft', 'ArrowLeft', 'Shift+ArrowUp', 'Enter');
  await told('Found');
  const step = width / 40;
  const [[x, y, label]] = (await shown()).points;
  assert.ok(
    Math.abs(x - (width / 2 - 2 * step)) < 1e-6 && Math.abs(y - (height / 2 - width / 250)) < 1e-6 && label === 1,
  );
  await press('b', 'ArrowRight', 'ArrowRight', 'ArrowDown', 'ArrowDown', 'b');
  await settled();
  assert.deepEqual((await shown()).boxes.length, 1);
  await savesWhatIsFound();
  await page.locator('#cut-picture').focus();
  await press('Backspace', 'Backspace');
  await told('Click on a thing');
  await page.locator('input[name=cut-label]').last().check();
  await page.locator('#cut-picture').focus();
  await press('Enter');
  assert.deepEqual(
    (await shown()).points.map((point) => point[2]),
    [0],
  );
  await page.locator('input[name=cut-label]').first().check();
});

test('a model that knows words has a field for them, finds every such thing, and takes boxes', async () => {
  await loadModel('fixtures/sam3/');
  await told('Write what to find');
  assert.equal(await page.locator('input[name=cut-label]').count(), 0);
  await page.locator('#cut-picture').focus();
  await page.keyboard.press('Enter');
  await page.locator('#notice p').filter({ hasText: 'finds things by words' }).first().waitFor();
  await page.locator('#cut-words').fill('red cat');
  await page.locator('#cut-words').press('Enter');
  await settled();
  await page
    .locator('#cut-told')
    .filter({ hasText: /Found \d+ thing|no such thing/ })
    .waitFor();
  await page.locator('#cut-clear').click();
  await told('Write what to find');
  assert.equal(await page.locator('#cut-words').inputValue(), '');
  const { x, y, width: across, height: down } = await page.locator('#cut-picture').boundingBox();
  await page.mouse.move(x + across * 0.2, y + down * 0.15);
  await page.mouse.down();
  await page.mouse.move(x + across * 0.85, y + down * 0.8);
  await page.mouse.up();
  await settled();
  await page
    .locator('#cut-told')
    .filter({ hasText: /Found \d+ thing|no such thing/ })
    .waitFor();
  // Back to a model of places: what was asked in words is no prompt of it.
  await loadModel('fixtures/sam/');
  await told('Click on a thing');
  assert.equal(await page.locator('#cut-words').count(), 0);
});

test('another photo that is dropped is looked at in place of the first; all came from the page’s own server', async () => {
  const data = await page.evaluateHandle(async () => {
    const canvas = new OffscreenCanvas(30, 60);
    canvas.getContext('2d').fillRect(5, 5, 10, 40);
    const data = new DataTransfer();
    data.items.add(new File([await canvas.convertToBlob()], 'tall.png', { type: 'image/png' }));
    return data;
  });
  await page.dispatchEvent('body', 'drop', { dataTransfer: data });
  await page.locator('#cut-chosen').filter({ hasText: 'tall.png, 30 by 60 pixels' }).waitFor();
  await told('Click on a thing');
  assert.deepEqual(await shown(), { points: [], boxes: [] });
  assert.deepEqual(elsewhere, []);
  assert.deepEqual(faults(logs), []);
});
