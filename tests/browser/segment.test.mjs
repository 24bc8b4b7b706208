// Masks of things in a page: SAM's are the recorded ones of its makers, SAM 2's those of the command line, and the things
// that SAM 3 finds by words those of transformers; what is no prompt is an error by name.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { png } from '../support/png.mjs';
import { caller, launch, mounts, openPage, rlxBinary, root, startServer } from './harness.mjs';

const [width, height] = [53, 37];

/** The tensors of a safetensors file: their names and bytes. */
function tensors(path) {
  const file = readFileSync(join(root, path));
  const start = 8 + Number(file.readBigUInt64LE());
  const header = JSON.parse(file.subarray(8, start).toString());
  return (name) => file.subarray(...header[name].data_offsets.map((at) => start + at));
}

const record = tensors('tests/fixtures/images/sam.safetensors');
const rgb = record('image.wide');
const rgba = Array.from({ length: width * height }, (_, i) => [...rgb.subarray(3 * i, 3 * i + 3), 255]).flat();

const PROMPTS = [
  { name: 'point', prompt: { points: [{ x: 20.5, y: 15 }] }, args: ['--point', '20.5,15'] },
  { name: 'point', prompt: { points: [{ x: 20.5, y: 15 }] }, all: true, args: ['--point', '20.5,15', '--all'] },
  { name: 'points', prompt: { points: [{ x: 20.5, y: 15, label: 1 }, { x: 50, y: 30, label: 0 }] }, args: ['--point', '20.5,15', '--point', '50,30,0'] },
  { name: 'box', prompt: { box: [10, 5, 45, 30] }, args: ['--box', '10,5,45,30'] },
];

/** The recorded masks of a prompt: score and pixels of each. */
function recorded({ name, all }) {
  const scores = record(`found.${name}.scores`);
  const masks = Array.from({ length: scores.length / 4 }, (_, i) => ({
    score: scores.readFloatLE(4 * i),
    covered: [...record(`found.${name}.masks`).subarray(i * width * height, (i + 1) * width * height)],
  }));
  return all ? masks : masks.slice(0, 1);
}

/** The same by the command line, whose masks are lengths of runs that are beside the thing and of it in turn. */
function native({ args }) {
  const answer = execFileSync(rlxBinary(), ['segment', join(folder, 'wide.png'), '--model', join(root, 'tests/fixtures/sam2'), '--device', 'cpu', '--json', ...args], { encoding: 'utf8' });
  return JSON.parse(answer).masks.map(({ score, runs }) => ({ score, covered: runs.flatMap((n, i) => Array(n).fill(i % 2)) }));
}

let server, browser, page, logs, folder;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rlx-segment-'));
  writeFileSync(join(folder, 'wide.png'), png(width, height, rgb));
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch();
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async ({ width, height, rgba }) => {
    const { ImageFeatures, Segmenter } = await import('/dist/index.js');
    const fault = (work) => work().then(() => null, ({ code, what, at, hint }) => ({ code, what, at, hint }));
    globalThis.t = { ImageFeatures, Segmenter, fault, image: { width, height, data: Uint8Array.from(rgba) } };
  }, { width, height, rgba });
});
after(async () => {
  await browser?.close();
  await server?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

const inPage = caller(() => ({ page, logs }));

for (const { model, device, truth } of [
  { model: 'sam', device: 'cpu', truth: recorded },
  { model: 'sam', device: 'webgpu', truth: recorded },
  { model: 'sam2', device: 'cpu', truth: native },
]) {
  test(`${model} on ${device} finds what is shown, as ${truth.name} masks have it`, async (t) => {
    const { found, info, milliseconds } = await inPage(async ({ model, device, prompts }) => {
      const segmenter = await globalThis.t.Segmenter.load({ model, device });
      const { image } = globalThis.t;
      // As a page has it: a bitmap.
      const seen = await segmenter.look(await createImageBitmap(new ImageData(new Uint8ClampedArray(image.data), image.width, image.height)));
      const found = [];
      const milliseconds = [];
      for (const { prompt, all } of [...prompts, prompts[0]]) {
        const begun = performance.now();
        const masks = await seen.masks(prompt, all && { all });
        milliseconds.push(performance.now() - begun);
        found.push(masks.map(({ score, width, height, covered }) => ({ score, width, height, covered: [...covered] })));
      }
      const info = segmenter.info();
      segmenter.dispose();
      return { found, info, milliseconds };
    }, { model: `/fixtures/${model}/`, device, prompts: PROMPTS });
    assert.equal(info.device, device);
    assert.equal(info.model.family, model);
    for (const [i, prompt] of [...PROMPTS, PROMPTS[0]].entries()) {
      const want = truth(prompt);
      assert.equal(want.length, prompt.all ? 3 : 1);
      assert.equal(found[i].length, want.length, prompt.args.join(' '));
      for (const [j, mask] of found[i].entries()) {
        assert.deepEqual([mask.width, mask.height], [width, height]);
        assert.ok(Math.abs(mask.score - want[j].score) <= 1e-4, `${prompt.args.join(' ')}: ${mask.score}, ${want[j].score}`);
        assert.deepEqual(mask.covered, want[j].covered, prompt.args.join(' '));
      }
    }
    t.diagnostic(`milliseconds from a prompt to its masks: ${milliseconds.map((ms) => ms.toFixed(1)).join(', ')}; the first of each length compiles`);
  });
}

for (const device of ['cpu', 'webgpu']) {
  test(`sam3 on ${device} finds what words and boxes mean, as transformers has it`, async () => {
    const found = tensors('tests/fixtures/sam3/found.safetensors');
    const questions = [
      { name: 'words', prompt: { text: 'red  Cat' }, threshold: 0.3 },
      { name: 'both', prompt: { text: 'A dog\'s tree', boxes: [{ box: [10, 5, 45, 30] }, { box: [2, 20, 12, 36], label: 0 }] }, threshold: 0.4 },
      { name: 'boxes', prompt: { boxes: [{ box: [10, 5, 45, 30] }] } },
    ];
    const { things, family, knowsWords, faults } = await inPage(async ({ device, questions }) => {
      const segmenter = await globalThis.t.Segmenter.load({ model: '/fixtures/sam3/', device });
      const { fault, image } = globalThis.t;
      const seen = await segmenter.look(image);
      const things = [];
      for (const { prompt, threshold } of questions) {
        const found = await seen.find(prompt, threshold && { threshold });
        things.push(found.map(({ score, box, covered }) => ({ score, box, covered: [...covered] })));
      }
      const faults = [
        await fault(() => seen.find({})),
        await fault(() => seen.find({ text: 'cat '.repeat(30) })),
        await fault(() => seen.find({ text: 'cat', boxes: [{ box: [1, 1, 9, 38] }] })),
        await fault(() => seen.masks({ points: [{ x: 1, y: 1 }] })),
      ];
      const none = await seen.find({ text: 'red  Cat' }, { threshold: 0.99 });
      const { knowsWords } = segmenter;
      const { family } = segmenter.info().model;
      segmenter.dispose();
      return { things: [...things, none], family, knowsWords, faults };
    }, { device, questions });
    assert.deepEqual([family, knowsWords], ['sam3', true]);
    for (const [i, { name }] of questions.entries()) {
      const [scores, boxes, masks] = ['scores', 'boxes', 'masks'].map((part) => found(`${name}.${part}`));
      assert.equal(things[i].length, scores.length / 4, name);
      for (const [j, thing] of things[i].entries()) {
        assert.ok(Math.abs(thing.score - scores.readFloatLE(4 * j)) <= 1e-4, name);
        for (const [k, side] of thing.box.entries()) assert.ok(Math.abs(side - boxes.readFloatLE(16 * j + 4 * k)) <= 1e-2, name);
        assert.deepEqual(thing.covered, [...masks.subarray(j * width * height, (j + 1) * width * height)], name);
      }
    }
    assert.deepEqual(things.at(-1), []);
    assert.deepEqual(faults.map((fault) => fault?.code), Array(4).fill('usage'));
    for (const [i, what] of [/nothing is said/, /tokens/, /not in the image/, /it finds things by words/].entries()) assert.match(faults[i].what, what);
  });
}

test('images are seen one beside another; a mask is drawn, and cuts the thing out', async () => {
  const found = await inPage(async () => {
    const { Segmenter, image } = t;
    const segmenter = await Segmenter.load({ model: '/fixtures/sam/', device: 'cpu' });
    const dark = { ...image, data: image.data.map((x, i) => (i % 4 === 3 ? 255 : x >> 2)) };
    const prompt = { box: [10, 5, 45, 30] };
    // All at once: calls wait for each other.
    const [first, other] = await Promise.all([segmenter.look(image), segmenter.look(dark)]);
    const [[mask], [of]] = await Promise.all([first.masks(prompt), other.masks(prompt)]);
    other.dispose();
    const [again] = await first.masks(prompt);
    const canvas = new OffscreenCanvas(mask.width, mask.height);
    const context = canvas.getContext('2d');
    context.putImageData(new ImageData(new Uint8ClampedArray(image.data), image.width, image.height), 0, 0);
    const bitmap = await mask.toImageBitmap();
    context.globalCompositeOperation = 'destination-in';
    context.drawImage(bitmap, 0, 0);
    const cut = context.getImageData(0, 0, mask.width, mask.height).data;
    const paint = mask.toImageData({ color: [255, 0, 10, 100] }).data;
    segmenter.dispose();
    return {
      same: mask.score === again.score && mask.covered.join() === again.covered.join(),
      differ: mask.score !== of.score,
      count: mask.covered.reduce((sum, x) => sum + x, 0),
      cut: mask.covered.every((of, i) => cut[4 * i + 3] === 255 * of && (!of || cut[4 * i] === image.data[4 * i])),
      painted: mask.covered.every((of, i) => [255, 0, 10, 100].every((x, c) => paint[4 * i + c] === x * of)),
    };
  });
  assert.deepEqual(found, { same: true, differ: true, count: 767, cut: true, painted: true });
});

test('what is no prompt, no image and no such model are errors by name; the segmenter goes on', async () => {
  const found = await inPage(async () => {
    const { ImageFeatures, Segmenter, fault, image } = t;
    const segmenter = await Segmenter.load({ model: '/fixtures/sam/', device: 'cpu' });
    const seen = await segmenter.look(image);
    const point = { points: [{ x: 1, y: 1 }] };
    const freed = await segmenter.look(image);
    freed.dispose();
    const abort = new AbortController();
    const looking = fault(() => segmenter.look(image, { signal: abort.signal }));
    abort.abort();
    const found = {
      stopped: await looking,
      nothing: await fault(() => seen.masks({})),
      outside: await fault(() => seen.masks({ points: [{ x: 53.5, y: 2 }] })),
      empty: await fault(() => seen.masks({ box: [5, 5, 5, 9] })),
      many: await fault(() => seen.masks({ points: Array(1025).fill({ x: 1, y: 1 }) })),
      nan: await fault(() => seen.masks({ points: [{ x: NaN, y: 2 }] })),
      size: await fault(() => segmenter.look({ width: 3, height: 3, data: new Uint8Array(5) })),
      thin: await fault(() => segmenter.look({ width: 1000, height: 1, data: new Uint8Array(4000) })),
      aborted: await fault(() => seen.masks(point, { signal: AbortSignal.abort() })),
      freed: await fault(() => freed.masks(point)),
      later: (await seen.masks(point)).length,
      family: await fault(() => Segmenter.load({ model: '/fixtures/vit/', device: 'cpu' })),
      features: await fault(() => ImageFeatures.load({ model: '/fixtures/sam/', device: 'cpu' })),
      option: await fault(() => Segmenter.load({ model: '/fixtures/sam/', pooling: 'mean' })),
      preprocessor: await fault(() => Segmenter.load({ model: '/fixtures/sam/', device: 'cpu', preprocessor: new Blob(['{"image_processor_type": "ViTImageProcessor"}']) })),
    };
    segmenter.dispose();
    return { ...found, disposed: await fault(() => seen.masks(point)), over: await fault(() => segmenter.look(image)) };
  });
  const codes = Object.fromEntries(Object.entries(found).map(([name, error]) => [name, error?.code ?? error]));
  assert.deepEqual(codes, {
    stopped: 'cancelled', nothing: 'usage', outside: 'usage', empty: 'usage', many: 'usage', nan: 'usage', size: 'usage', thin: 'bad_file',
    aborted: 'cancelled', freed: 'disposed', later: 1, family: 'unsupported', features: 'unsupported', option: 'usage',
    preprocessor: 'unsupported', disposed: 'disposed', over: 'disposed',
  });
  assert.match(found.nothing.what, /nothing is shown of the thing/);
  assert.deepEqual(found.outside, { code: 'usage', what: 'the point 53.5,2 is not in the image', at: '', hint: 'it has 53 x 37 pixels' });
  assert.match(found.empty.what, /has nothing in it/);
  assert.match(found.nan.what, /x NaN/);
  assert.match(found.family.what, /vit makes vectors of images/);
  assert.match(found.family.hint, /masks come from a model such as sam/);
  assert.match(found.features.what, /sam finds things in images/);
});
