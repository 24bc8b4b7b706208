/** What a segmenter makes of prompts before the module sees them, what it frees, and masks as pixels. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RlxError } from '../src/error.js';
import type { FindOptions, FindPrompt, MaskPaint, MaskPrompt } from '../src/index.js';
import { Live } from '../src/live.js';
import { Mask } from '../src/mask.js';
import { SeenImage } from '../src/seen_image.js';
import { FakeSession } from './fakes.js';

const fault = (code: string, what: RegExp) => (error: unknown) => {
  assert.ok(error instanceof RlxError, String(error));
  assert.equal(error.code, code);
  assert.match(error.what, what);
  return true;
};

const image = { width: 2, height: 1, data: Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8) };
const START = 'start look 2x1: 1,2,3,4,5,6,7,8';
const point = { points: [{ x: 1, y: 0.5 }] };

function fake() {
  const wasm = new FakeSession();
  const live = new Live({ wasm, host: undefined } as unknown as ConstructorParameters<typeof Live>[0], 'segmenter');
  return { wasm, live };
}

const pause = (ms = 0) => new Promise((resolve) => setTimeout(resolve, ms));

test('an image is seen once; prompts reach the module as numbers, and masks are as large as the image', async () => {
  const { wasm, live } = fake();
  // A view of the middle of a buffer: its own bytes are taken.
  const data = new Uint8ClampedArray([0, ...image.data, 0]).subarray(1, 9);
  const seen = await SeenImage.of(live, { ...image, data }, undefined);
  assert.deepEqual([seen.width, seen.height, wasm.log[0]], [2, 1, START]);
  const points = [{ x: 1, y: 0.5 }, { x: 0, y: 1, label: 0 as const }];
  const [first, all] = [seen.masks({ points }), seen.masks({ ...point, box: [0, 0, 2, 1] }, { all: true })];
  points[0]!.x = 7; // what was asked is asked
  const masks = await first;
  assert.deepEqual(masks.map(({ score, width, height, covered }) => [score, width, height, ...covered]), [[0.75, 2, 1, 0, 1], [0.5, 2, 1, 1, 1]]);
  await all;
  assert.deepEqual(wasm.prompts, [[1, [1, 0.5, 1, 0, 1, 0], [], false], [1, [1, 0.5, 1], [0, 0, 2, 1], true]]);
});

test('prompts that are none are usage, with the place', async () => {
  const { wasm, live } = fake();
  const seen = await SeenImage.of(live, image, undefined);
  const wrong: [unknown, RegExp, string][] = [
    [null, /object with points or a box/, 'prompt'], ['x', /object with points or a box/, 'prompt'],
    [{ point: { x: 1, y: 1 } }, /point is not part of a prompt/, 'point'], [{ points: { x: 1, y: 1 } }, /points is no array/, 'points'],
    [{ points: [{ x: 1, y: 1 }, { x: NaN, y: 1 }] }, /points\[1\] has x NaN and y 1/, 'points[1]'],
    [{ points: [null] }, /points\[0\] has x undefined/, 'points[0]'], [{ points: [{ x: '1', y: Infinity }] }, /x 1 and y Infinity/, 'points[0]'],
    [{ points: [{ x: 1, y: 1, label: 2 }] }, /label 2, it must be 0 or 1/, 'points[0]'],
    [{ points: [{ x: 1, y: 1, label: true }] }, /label true/, 'points[0]'],
    [{ box: [1, 2, 3] }, /box is 1,2,3, it must be four numbers/, 'box'], [{ box: [] }, /four numbers/, 'box'],
    [{ box: [1, 2, 3, NaN] }, /four numbers/, 'box'], [{ box: '1234' }, /four numbers/, 'box'],
  ];
  for (const [prompt, what, at] of wrong) {
    await assert.rejects(seen.masks(prompt as MaskPrompt), (error: RlxError) => error.at === at && fault('usage', what)(error), String(what));
  }
  assert.deepEqual(wasm.prompts, []);
  await assert.rejects(SeenImage.of(live, { ...image, height: 2 }, undefined), fault('usage', /8 bytes, 2 by 2 pixels need 16/));
});

test('a question reaches the module as words and numbers, and things have a mask and a box', async () => {
  const { wasm, live } = fake();
  const seen = await SeenImage.of(live, image, undefined);
  const [thing] = await seen.find({ text: 'a cat', boxes: [{ box: [0, 0, 1, 1] }, { box: [1, 0, 2, 1], label: 0 }] }, { threshold: 0.25 });
  assert.ok(thing instanceof Mask);
  assert.deepEqual([thing.score, thing.width, thing.height, [...thing.covered], thing.box], [0.75, 2, 1, [0, 1], [0, 0, 2, 1]]);
  await seen.find({ text: 'a dog' });
  assert.deepEqual(wasm.questions, [[1, 'a cat', [0, 0, 1, 1, 1, 1, 0, 2, 1, 0], 0.25], [1, 'a dog', [], 0.5]]);
  const wrong: [unknown, RegExp, string, unknown?][] = [
    ['cat', /object with a text or boxes/, 'prompt'], [null, /object with a text or boxes/, 'prompt'],
    [{ points: [] }, /points is not part of a question/, 'points'], [{ text: 3 }, /text is no text/, 'text'],
    [{ boxes: {} }, /boxes is no array/, 'boxes'], [{ boxes: [null] }, /boxes\[0\] is undefined/, 'boxes[0]'],
    [{ boxes: [{ box: [1, 2, 3, NaN] }] }, /four numbers/, 'boxes[0]'], [{ boxes: [{ box: [1, 2, 3, 4], label: 2 }] }, /label 2/, 'boxes[0]'],
    [{ text: 'cat' }, /threshold is 2/, 'threshold', { threshold: 2 }], [{ text: 'cat' }, /threshold is NaN/, 'threshold', { threshold: NaN }],
  ];
  for (const [prompt, what, at, options] of wrong) {
    await assert.rejects(seen.find(prompt as FindPrompt, options as FindOptions), (error: RlxError) => error.at === at && fault('usage', what)(error), String(what));
  }
  assert.equal(wasm.questions.length, 2);
  seen.dispose();
  await assert.rejects(seen.find({ text: 'a cat' }), fault('disposed', /the image was disposed/));
});

test('an image is freed once, behind the calls that were made before; then it says so', async () => {
  const { wasm, live } = fake();
  const seen = await SeenImage.of(live, image, undefined);
  const asked = seen.masks(point);
  seen.dispose();
  seen.dispose();
  await assert.rejects(seen.masks(point), fault('disposed', /the image was disposed/));
  assert.equal((await asked).length, 2);
  await pause(10);
  assert.deepEqual(wasm.log.slice(2), ['start masks of 1', 'end masks of 1', 'free seen 1']);
  const again = await SeenImage.of(live, image, undefined);
  live.dispose();
  await assert.rejects(again.masks(point), fault('disposed', /the segmenter was disposed/));
  await assert.rejects(SeenImage.of(live, image, undefined), fault('disposed', /the segmenter was disposed/));
  again.dispose();
});

test('a signal ends a call; what an image left on the device after that is freed', async () => {
  const { wasm, live } = fake();
  await assert.rejects(SeenImage.of(live, image, AbortSignal.abort()), fault('cancelled', /./));
  assert.deepEqual(wasm.log, []);
  const abort = new AbortController();
  const looking = SeenImage.of(live, image, abort.signal);
  await pause(1);
  abort.abort();
  await assert.rejects(looking, fault('cancelled', /./));
  await pause(10);
  assert.deepEqual(wasm.log, [START, 'cancel', `end${START.slice(5)}`]);
  // The answer was on its way when the signal came: the module did not hear of it in time.
  wasm.log = [];
  wasm.cancel = () => {};
  const late = new AbortController();
  const other = SeenImage.of(live, image, late.signal);
  await pause(1);
  late.abort();
  await assert.rejects(other, fault('cancelled', /./));
  await pause(10);
  assert.deepEqual(wasm.log, [START, `end${START.slice(5)}`, 'free seen 1']);
  const seen = await SeenImage.of(live, image, undefined);
  const masks = seen.masks(point, { signal: AbortSignal.timeout(1) });
  await assert.rejects(masks, fault('cancelled', /./));
});

test('a mask is pixels of one colour; elsewhere it is transparent', async (t) => {
  const mask = new Mask(1, 2, 2, Uint8Array.of(1, 0, 0, 1));
  assert.throws(() => mask.toImageData(), fault('unsupported', /no ImageData/));
  class FakeData {
    readonly data: Uint8ClampedArray;
    constructor(readonly width: number, readonly height: number) {
      this.data = new Uint8ClampedArray(width * height * 4);
    }
  }
  const given = globalThis as { ImageData?: unknown };
  given.ImageData = FakeData;
  t.after(() => {
    delete given.ImageData;
  });
  assert.deepEqual([...mask.toImageData().data], [0, 0, 0, 255, ...Array(8).fill(0), 0, 0, 0, 255]);
  const { data, width, height } = mask.toImageData({ color: [9, 8, 7, 6] });
  assert.deepEqual([width, height, ...data], [2, 2, 9, 8, 7, 6, ...Array(8).fill(0), 9, 8, 7, 6]);
  for (const color of ['red', [1, 2], [1, 2, 3, 4, 5], [1, 2, 256], [0.5, 1, 1], [-1, 0, 0], [NaN, 0, 0]]) {
    assert.throws(() => mask.toImageData({ color } as unknown as MaskPaint), fault('usage', /three or four whole numbers/));
    await assert.rejects(mask.toImageBitmap({ color } as unknown as MaskPaint), fault('usage', /three or four whole numbers/));
  }
});
