// Lines of programs' texts, as the page folds, follows and searches them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { follows, has, linesOf, sectionsOf } = await load('inspect/lines.ts');

const MIR = `func @decode {
  weight %blk.0.attn_q.weight : tensor<256x256xq4_k>
  state %blk.1.k : state<2x1024x64xf16>
  %1 = gather %token_embd.weight, %0 -> tensor<1x256xf32> // token_embd
  %2, %3 = matmul %1, %blk.0.attn_q.weight {segments = 2} -> tensor<1x256xf32> // blk.0.attn_q
  %12 = rope %2 -> tensor<1x256xf32> // blk.10.attn
}
`;
const LIR = '  3: attention_join arena+0 : tensor<32x128xf32>, weight[20] : tensor<4xf32> -> arena+17408 : tensor<1x256xf32> // blk.0.attn';

test('a line has its names, its label and its layer, and its text is whole', () => {
  const lines = linesOf(MIR);
  assert.equal(lines.length, 7);
  assert.deepEqual(lines.map(({ layer }) => layer), ['', 'blk.0', 'blk.1', '', 'blk.0', 'blk.10', '']);
  assert.deepEqual(lines.map(({ label }) => label), ['', '', '', 'token_embd', 'blk.0.attn_q', 'blk.10.attn', '']);
  const names = (line) => line.pieces.filter(({ name }) => name).map(({ name }) => name);
  assert.deepEqual(names(lines[4]), ['%2', '%3', '%1', '%blk.0.attn_q.weight']);
  assert.deepEqual(names(linesOf(LIR)[0]), ['arena+0', 'weight[20]', 'arena+17408']);
  const whole = lines.map(({ pieces, label }) => pieces.map(({ text }) => text).join('') + (label && ` // ${label}`)).join('\n');
  assert.equal(`${whole}\n`, MIR);
});

test('lines of a layer that stand together are a section', () => {
  const sections = sectionsOf(linesOf('a // blk.0.x\nb // blk.0.y\nc\nd // blk.0.z\n'));
  assert.deepEqual(sections.map(({ layer, lines }) => [layer, lines.length]), [['blk.0', 2], ['', 1], ['blk.0', 1]]);
});

test('a comment of its own is no label', () => {
  const [line] = linesOf('// webgpu buffer=268435456');
  assert.deepEqual([line.label, line.pieces], ['', [{ text: '// webgpu buffer=268435456' }]]);
});

test('a name is followed in its stage, whole, and a label in all', () => {
  const lines = linesOf(MIR);
  const at = (stage, followed) => lines.filter((line) => follows(line, stage, followed)).map(({ at }) => at);
  assert.deepEqual(at('mir', { stage: 'mir', name: '%1' }), [3, 4], '%12 is another value');
  assert.deepEqual(at('hir', { stage: 'mir', name: '%1' }), []);
  assert.deepEqual(at('hir', { label: 'blk.0.attn_q' }), [4]);
  assert.deepEqual(at('mir', undefined), []);
});

test('a search knows no case, and finds nothing where nothing is asked', () => {
  const [, , , line] = linesOf(MIR);
  assert.ok(has(line, 'GATHER') && has(line, 'Token_Embd') && !has(line, 'matmul') && !has(line, ''));
});
