/** What becomes of the calls of an engine that is disposed, and when its memory is freed. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeEngine } from './fakes.js';
import { PLACES } from './places.js';
import type { Place } from './places.js';

const messages = [{ role: 'user', content: 'hi' }] as const;
const DISPOSED = { code: 'disposed', what: 'the engine was disposed' };
const soon = () => new Promise((resolve) => setTimeout(resolve, 20));

/** An engine on a fake model whose first step lasts until `step` is called. */
async function setUp(make: Place['engine']) {
  const wasm = new FakeEngine();
  wasm.events = [{ type: 'text', text: 'Hello' }, { type: 'done', reason: 'stop', promptTokens: 1, completionTokens: 1 }];
  let step = () => {};
  wasm.before = () => new Promise<void>((resolve) => {
    step = resolve;
  });
  return { wasm, engine: await make(wasm), step: () => step() };
}

for (const { name, engine: make } of PLACES) {
  test(`dispose ends every call that runs or waits, at once and with disposed, ${name}`, async () => {
    const { engine } = await setUp(make);
    const running = engine.chat.completions.create({ messages });
    const waiting = [engine.chat.completions.create({ messages }), engine.chat.completions.create({ messages, stream: true })];
    await soon();
    void engine.dispose();
    for (const call of [running, ...waiting]) await assert.rejects(call, DISPOSED);
  });

  test(`a call made after dispose never gets a turn, streamed or not, ${name}`, async () => {
    const { engine, wasm } = await setUp(make);
    void engine.dispose();
    for (const stream of [true, false]) await assert.rejects(engine.chat.completions.create({ messages, stream }), DISPOSED);
    await assert.rejects(engine.reload(), DISPOSED);
    assert.throws(() => engine.info(), DISPOSED);
    assert.deepEqual(wasm.started, []);
  });

  test(`the engine is freed after the step that is pending has come back, and once, ${name}`, async () => {
    const { engine, wasm, step } = await setUp(make);
    const call = engine.chat.completions.create({ messages });
    await soon();
    void engine.dispose();
    const freed = engine.dispose();
    await assert.rejects(call, DISPOSED);
    await soon();
    assert.ok(!wasm.log.includes('dispose'), 'freed under a step that still uses it');
    step();
    await freed;
    assert.equal(wasm.log.filter((entry) => entry === 'dispose').length, 1);
  });

  test(`the engine is freed when the pending step fails, too, ${name}`, async () => {
    const { engine, wasm } = await setUp(make);
    let fail = () => {};
    wasm.before = () => new Promise<void>((_, reject) => {
      fail = () => reject(new Error('the device was lost'));
    });
    const call = engine.chat.completions.create({ messages });
    await soon();
    void engine.dispose();
    await assert.rejects(call, DISPOSED);
    fail();
    await soon();
    assert.equal(wasm.log.at(-1), 'dispose');
  });
}
