// Images in memory, as Node has them; what a page draws is in tests/browser/images.test.mjs.

import assert from 'node:assert/strict';
import test from 'node:test';
import { pixelsOf } from '../src/image_source.js';
import type { ImageInput } from '../src/image_source.js';

const code = (code: string, what: RegExp) => (error: { code: string; what: string }) => {
  assert.equal(error.code, code);
  assert.match(error.what, what);
  return true;
};

test('pixels in memory are taken as they are', async () => {
  const image = { width: 3, height: 2, data: new Uint8Array(24) };
  assert.equal(await pixelsOf(image), image);
  const clamped = { width: 1, height: 1, data: new Uint8ClampedArray(4) };
  assert.equal(await pixelsOf(clamped), clamped);
});

test('what is no image, and sizes that the pixels do not have, are errors by name', async () => {
  const data = new Uint8Array(24);
  for (const [width, height, what] of [
    [0, 2, /0 by 2 pixels/], [3, -2, /3 by -2/], [1.5, 4, /1.5 by 4/], [NaN, 1, /NaN/], [3, 3, /24 bytes, 3 by 3 pixels need 36/],
    [1e5, 1e5, /at most 100 million/],
  ] as const) await assert.rejects(pixelsOf({ width, height, data }, 'images[4]'), code('usage', what), `${width} ${height}`);
  await assert.rejects(pixelsOf(null as unknown as ImageInput), code('usage', /no image/));
  await assert.rejects(pixelsOf('cat.png' as unknown as ImageInput), code('usage', /no image/));
  await assert.rejects(pixelsOf(new Blob(['x'])), code('usage', /no canvas/));
});
