// Where the copy of `npm run mutants` edits the texts of kernels.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withEditedTexts } from '../../scripts/lib/mutants_tree.mjs';

const FILE = 'crates/rlx-webgpu/src/kernels/norm.rs';
const mutantsOf = (...names) => new Map(names.map((name) => {
  const file = `crates/rlx-webgpu/src/kernels/${name}.wgsl`;
  return [file, [{ name, file, from: 'a + b', to: 'a - b' }]];
}));

test('a text is edited where Rust includes it, comments cut or not', () => {
  for (const included of ['wgsl!("norm.wgsl")', 'include_str!("norm.wgsl")']) {
    const { out, used } = withEditedTexts(FILE, `let text = f(${included}, 1);`, mutantsOf('norm'));
    assert.ok(out.startsWith(`let text = f(rlx_core::mutant::pick(${included}, &[(`), out);
    assert.ok(out.endsWith(', r####"a + b"####, r####"a - b"####)]), 1);'), out);
    assert.deepEqual([...used], ['crates/rlx-webgpu/src/kernels/norm.wgsl']);
  }
});

test('texts that are one constant are edited as one', () => {
  const included = 'wgsl!(text: concat!(include_str!("wide.wgsl"), include_str!("matmul/../norm.wgsl")))';
  const { out, used } = withEditedTexts(FILE, `fill(${included})`, mutantsOf('norm', 'wide'));
  assert.ok(out.startsWith(`fill(rlx_core::mutant::pick(${included}, &[(`), out);
  assert.equal(out.match(/a - b/g).length, 2);
  assert.equal(used.size, 2);
});

test('other texts stay as they are', () => {
  const source = 'wgsl!("rope.wgsl"); include_str!("norm.txt"); wgsl!(text: include_str!($path))';
  const { out, used } = withEditedTexts(FILE, source, mutantsOf('norm'));
  assert.equal(out, source);
  assert.equal(used.size, 0);
});
