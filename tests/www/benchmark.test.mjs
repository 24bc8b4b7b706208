// The benchmark's figures, and the few instructions of wasm that read memory.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { ceiling, decodeRate, grouped, promptRate, spread } = await load('benchmark/figures.ts');
const { reader, readingModule } = await load('benchmark/reads.ts');

test('the middle of rates, with the least and the most; what was not measured is left out', () => {
  assert.deepEqual(spread([3, null, 1, 2]), { median: 2, least: 1, most: 3 });
  assert.deepEqual(spread([10, 4]), { median: 7, least: 4, most: 10 });
  assert.equal(spread([null]), undefined);
  const turn = (asked, prompt, decode) => ({ asked, prompt_tokens_per_s: prompt, decode_tokens_per_s: decode });
  const turns = [turn(128, 10, 5), turn(512, 30, null), turn(128, 12, 7)];
  assert.equal(promptRate({ turns }, 128).median, 11);
  assert.equal(promptRate({ turns }, 512).median, 30);
  assert.equal(decodeRate({ turns }, [128, 512]).median, 6);
  assert.equal(promptRate({ turns }, 64), undefined);
});

test('what memory allows is its rate by the weights of a token', () => {
  assert.equal(ceiling({ bandwidth: { bytes_per_s: 20e9 }, weight_bytes: 800e6 }), 25);
  assert.equal(ceiling({ bandwidth: null, weight_bytes: 800e6 }), undefined);
  assert.equal(ceiling({ bandwidth: { bytes_per_s: 20e9 }, weight_bytes: null }), undefined);
  assert.deepEqual([grouped(12.34), grouped(1789.5)], ['12.3', '1,790']);
});

test('the module that reads memory reads all of it', async () => {
  const { instance } = await WebAssembly.instantiate(readingModule(2));
  const { mem, read } = instance.exports;
  const words = new Uint32Array(mem.buffer);
  // The answer is the sum without carry of each fourth word: one bit anywhere changes it.
  const expected = (from, to) =>
    words.subarray(from / 4, to / 4).reduce((sum, word, i) => (i % 4 === 0 ? sum ^ word : sum), 0);
  words.forEach((_, i) => (words[i] = Math.imul(i + 1, 0x9e37_79b9)));
  for (const [from, to] of [
    [0, 64],
    [0, 65_536],
    [64, 131_072],
  ])
    assert.equal(read(from, to), expected(from, to) | 0);
  for (const at of [0, 4, 8, 12].map((word) => word + 16 * 1023)) {
    const before = read(0, 131_072);
    words[at] ^= 1;
    assert.equal(read(0, 131_072), before ^ 1);
  }
  const own = await reader(100_000);
  assert.equal(own.bytes, 100_032);
  own.read();
});
