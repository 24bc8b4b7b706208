// Vectors of images in a page, from whatever a page has of an image, are those of the command line.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { png } from '../support/png.mjs';
import { caller, launch, mounts, openPage, rlxBinary, root, startServer } from './harness.mjs';

const MODELS = ['vit', 'dinov2_registers'];
const DEVICES = ['cpu', 'webgpu'];
/** An image of odd sizes, without alpha: canvases round colours of what is half transparent. */
const [width, height] = [61, 47];
const rgb = Buffer.from(Array.from({ length: width * height * 3 }, (_, i) => ((i * 2654435761) >>> 13 & 63) + (i / 3 % width) * 3));
const file = png(width, height, rgb);

let server, browser, page, logs, folder, native;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rlx-images-'));
  writeFileSync(join(folder, 'a.png'), file);
  const ask = (model, ...more) => JSON.parse(execFileSync(rlxBinary(), ['features', join(folder, 'a.png'), '--model', join(root, 'tests/fixtures', model), '--device', 'cpu', '--json', ...more], { encoding: 'utf8' })).features[0];
  native = Object.fromEntries(MODELS.map((model) => [model, { rows: ask(model), vector: ask(model, '--pooled')[0] }]));
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') }, files: { '/a.png': file, '/text.png': Buffer.from('no image') } });
  browser = await launch();
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async () => {
    const { Embedder, ImageFeatures } = await import('/dist/index.js');
    const fault = (work) => work().then(() => null, ({ code, what, at, hint }) => ({ code, what, at, hint }));
    const blob = async (path) => (await fetch(path)).blob();
    globalThis.t = { Embedder, ImageFeatures, fault, blob };
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

const inPage = caller(() => ({ page, logs }));

function near(got, want, what) {
  assert.equal(got.length, want.length, what);
  const most = Math.max(...want.map(Math.abs));
  const apart = Math.max(...got.map((x, i) => Math.abs(x - want[i]))) / most;
  assert.ok(apart <= 1e-4, `${what}: ${apart}`);
}

for (const model of MODELS) {
  for (const device of DEVICES) {
    test(`${model} on ${device}: rows and the vector of a file are the command line's`, async () => {
      const { rows, vector, info } = await inPage(async ({ model, device }) => {
        const features = await t.ImageFeatures.load({ model, device });
        const image = await t.blob('/a.png');
        const { data, dims } = await features.rows(image);
        const [vector] = await features.embed([image]);
        const info = features.info();
        features.dispose();
        return { rows: { data: [...data], dims }, vector: [...vector], info };
      }, { model: `/fixtures/${model}/`, device });
      const want = native[model];
      assert.deepEqual(rows.dims, [want.rows.length, want.rows[0].length]);
      near(rows.data, want.rows.flat(), 'rows');
      near(vector, want.vector, 'vector');
      assert.equal(info.device, device);
      assert.equal(info.model.family, model.split('_')[0]);
    });
  }
}

test('what a page has of an image gives the same vector', async () => {
  const vectors = await inPage(async () => {
    const features = await t.ImageFeatures.load({ model: '/fixtures/vit/', device: 'cpu' });
    const file = await t.blob('/a.png');
    const bitmap = await createImageBitmap(file);
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const context = canvas.getContext('2d');
    context.drawImage(bitmap, 0, 0);
    const data = context.getImageData(0, 0, bitmap.width, bitmap.height);
    const element = Object.assign(document.createElement('canvas'), { width: bitmap.width, height: bitmap.height });
    element.getContext('2d').drawImage(bitmap, 0, 0);
    const img = new Image();
    img.src = URL.createObjectURL(file);
    await img.decode();
    const frame = new VideoFrame(bitmap, { timestamp: 0 });
    const pixels = { width: data.width, height: data.height, data: new Uint8Array(data.data) };
    const images = { file, bitmap, canvas, data, element, img, frame, pixels };
    const told = [];
    const all = await features.embed(Object.values(images), { onProgress: (progress) => told.push(progress) });
    frame.close();
    features.dispose();
    return { vectors: Object.fromEntries(Object.keys(images).map((name, i) => [name, [...all[i]]])), told };
  });
  const names = Object.keys(vectors.vectors);
  assert.deepEqual(vectors.told, names.map((_, i) => ({ done: i + 1, total: names.length })));
  for (const name of names) near(vectors.vectors[name], native.vit.vector, name);
});

test('what is no image, and what is no model of images, are errors by name; the model goes on', async () => {
  const found = await inPage(async () => {
    const { ImageFeatures, Embedder, blob, fault } = t;
    const features = await ImageFeatures.load({ model: '/fixtures/vit/', device: 'cpu' });
    const image = await blob('/a.png');
    const text = await blob('/text.png');
    const found = {
      text: await fault(() => features.embed([image, text])),
      size: await fault(() => features.rows({ width: 3, height: 3, data: new Uint8Array(5) })),
      none: await fault(() => features.embed('a.png')),
      aborted: await fault(() => features.embed([image], { signal: AbortSignal.abort() })),
      later: (await features.embed([image])).length,
      empty: await features.embed([]),
      encoder: await fault(() => ImageFeatures.load({ model: '/fixtures/bert/bert.gguf', device: 'cpu' })),
      embedder: await fault(() => Embedder.load({ model: '/fixtures/vit/', device: 'cpu' })),
      option: await fault(() => ImageFeatures.load({ model: '/fixtures/vit/', pooling: 'mean' })),
    };
    features.dispose();
    return { ...found, disposed: await fault(() => features.embed([image])) };
  });
  assert.deepEqual(found.text, { code: 'bad_file', what: 'the browser cannot read this file as an image', at: 'images[1]', hint: 'give a PNG, JPEG, WebP or another image that it shows' });
  assert.match(found.size.what, /5 bytes, 3 by 3 pixels need 36/);
  assert.equal(found.none.code, 'usage');
  assert.equal(found.aborted.code, 'cancelled');
  assert.equal(found.later, 1);
  assert.deepEqual(found.empty, []);
  assert.equal(found.encoder.code, 'unsupported');
  assert.match(found.encoder.what, /bert makes vectors of texts/);
  assert.equal(found.embedder.code, 'unsupported');
  assert.match(found.embedder.what, /vit makes vectors of images/);
  assert.equal(found.option.code, 'usage');
  assert.equal(found.disposed.code, 'disposed');
});
