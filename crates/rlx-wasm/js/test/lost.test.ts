/** What an engine tells of its memory and of its end. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RlxError } from '../src/error.js';
import { FakeEngine } from './fakes.js';
import { PLACES } from './places.js';

for (const { name, engine: make } of PLACES) {
  test(`bytes of the module's memory, ${name}`, async () => {
    const engine = await make(new FakeEngine());
    assert.deepEqual(await engine.memory(), { gpu: null, wasm: 65536 });
    await engine.dispose();
    await assert.rejects(engine.memory(), { code: 'disposed' });
  });

  test(`a module that stops is told to the listener, ${name}`, async () => {
    const wasm = new FakeEngine();
    let tell: (error: RlxError) => void = () => {};
    const lost = new Promise<RlxError>((resolve) => {
      tell = resolve;
    });
    const engine = await make(wasm, tell);
    wasm.stop(new RlxError('internal', 'the wasm module stopped: unreachable'));
    const error = await lost;
    assert.deepEqual([error.code, error.what], ['internal', 'the wasm module stopped: unreachable']);
    await engine.dispose();
  });

  test(`the end of an engine that was disposed is no loss, ${name}`, async () => {
    const wasm = new FakeEngine();
    let told = 0;
    const engine = await make(wasm, () => {
      told += 1;
    });
    await engine.dispose();
    wasm.stop(new RlxError('internal', 'late'));
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(told, 0);
  });
}
