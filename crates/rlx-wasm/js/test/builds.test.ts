/** Which build of the wasm module is taken. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseBuild } from '../src/builds.js';

test('where relaxed SIMD validates its build is taken, elsewhere the default', () => {
  assert.equal(chooseBuild(() => true), 'rlx-relaxed');
  assert.equal(chooseBuild(() => false), 'rlx');
});

test('the probe is a whole module, refused for nothing but its one relaxed instruction', () => {
  chooseBuild((probe) => {
    const bytes = [...new Uint8Array(probe as Uint8Array<ArrayBuffer>)];
    const dot = bytes.findLastIndex((byte) => byte === 0xfd);
    assert.deepEqual(bytes.slice(dot), [0xfd, 0x93, 2, 0x0b]);
    // The same with `v128.bitselect`, which takes three vectors too and is no relaxed one. Its
    // opcode has one byte more than it needs, as the probe's has two.
    const plain = Uint8Array.from([...bytes.slice(0, dot), 0xfd, 0xd2, 0, 0x0b]);
    assert.equal(WebAssembly.validate(plain), true);
    return false;
  });
});
