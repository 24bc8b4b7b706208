// Kernels of a timed step, as the page groups and sums them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { bandwidth, groupsOf, kindOf, share, time, totalsOf } = await load('inspect/times.ts');

const launch = (label, kernel, startMs, ms, readBytes = 1000) => ({
  step: 0, label, kernel, operator: kernel, startMs, ms, readBytes, writtenBytes: 0, operations: 0,
});
const STEP = [
  launch('token_embd', 'gather', 0, 0.5),
  launch('blk.0.attn_q', 'matmul', 0.5, 1, 2e6),
  launch('blk.0.attn', 'attention', 1.5, 0.5),
  launch('blk.11.attn_q', 'matmul', 2, 1, 2e6),
  launch('output', 'matmul', 3, 3),
];

test('kernels of a layer are a group, and what is outside of layers is one by its first kernel', () => {
  const groups = groupsOf(STEP).map(({ name, launches, startMs, ms }) => [name, launches.length, startMs, ms]);
  assert.deepEqual(groups, [['token_embd', 1, 0, 0.5], ['blk.0', 2, 0.5, 1.5], ['blk.11', 1, 2, 1], ['output', 1, 3, 3]]);
});

test('equal steps of all layers are summed, and the longest comes first', () => {
  const rows = totalsOf(STEP).map(({ role, kernel, launches, ms, bytes }) => [role, kernel, launches, ms, bytes]);
  assert.deepEqual(rows.slice(0, 2), [['output', 'matmul', 1, 3, 1000], ['attn_q', 'matmul', 2, 2, 4e6]]);
  assert.equal(rows.reduce((sum, [, , launches]) => sum + launches, 0), STEP.length);
});

test('times, shares and bandwidths in words; a clock that saw no time pass gives no bandwidth', () => {
  assert.deepEqual([0.0042, 0.25, 0.9999, 3.456, 34.56, 2500].map(time), ['4.2 µs', '250 µs', '1.00 ms', '3.46 ms', '34.6 ms', '2.50 s']);
  assert.deepEqual([share(1, 8), share(1, 0)], ['12.5 %', '–']);
  assert.deepEqual([bandwidth(2e6, 1), bandwidth(3.2e8, 1), bandwidth(1000, 0), bandwidth(1e4, 1)], ['2.00 GB/s', '320.00 GB/s', '–', '10.0 MB/s']);
});

test('products and attention are told from all else', () => {
  const kinds = ['matmul', 'grouped_matmul', 'rope_attention_split', 'rms_norm'].map((operator) => kindOf({ operator }));
  assert.deepEqual(kinds, ['product', 'product', 'attention', 'other']);
});
