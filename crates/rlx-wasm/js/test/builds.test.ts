/** Which build of the wasm module is taken. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseBuild, chooseThreads } from '../src/builds.js';
import { engineFiles } from '../src/offline.js';

test('where relaxed SIMD validates its build is taken, elsewhere the default', () => {
  assert.equal(chooseBuild(false, () => true), 'rlx-relaxed');
  assert.equal(chooseBuild(false, () => false), 'rlx');
  assert.equal(chooseBuild(true, () => true), 'rlx-threads-relaxed');
  assert.equal(chooseBuild(true, () => false), 'rlx-threads');
});

test('what a page keeps for its engines are the builds that they take, with threads where memory may be shared', () => {
  assert.deepEqual(engineFiles(), [`${chooseBuild(false)}.wasm`]);
  assert.deepEqual(engineFiles({ isolated: true }), [`${chooseBuild(false)}.wasm`, `${chooseBuild(true)}.wasm`]);
});

test('the probe is a whole module, refused for nothing but its one relaxed instruction', () => {
  chooseBuild(false, (probe) => {
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

test('there are threads only where a page may share memory, one a core and at most 8', () => {
  const page = { crossOriginIsolated: true, Worker: class {}, navigator: { hardwareConcurrency: 4 } };
  assert.equal(chooseThreads(undefined, page), 4);
  assert.equal(chooseThreads(undefined, { ...page, navigator: { hardwareConcurrency: 64 } }), 8);
  assert.equal(chooseThreads(12, page), 12);
  assert.equal(chooseThreads(1, page), 1);
  assert.equal(chooseThreads(4, { ...page, crossOriginIsolated: false }), 1);
  assert.equal(chooseThreads(4, { crossOriginIsolated: true }), 1);
  assert.equal(chooseThreads(undefined), 1, 'Node');
});
