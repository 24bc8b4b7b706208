/** What becomes of the calls of an engine that is disposed, and when its memory is freed. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Running } from '../src/bring.js';
import { Engine } from '../src/engine.js';
import type { LoadOptions } from '../src/types.js';
import { FakeEngine } from './fakes.js';

const messages = [{ role: 'user', content: 'hi' }] as const;
const DISPOSED = { code: 'disposed', what: 'the engine was disposed' };
const soon = () => new Promise((resolve) => setTimeout(resolve, 5));

/** An engine on a fake model whose first step lasts until `step` is called. */
function setUp() {
  const wasm = new FakeEngine();
  wasm.events = [{ type: 'text', text: 'Hello' }, { type: 'done', reason: 'stop', promptTokens: 1, completionTokens: 1 }];
  let step = () => {};
  wasm.before = () => new Promise<void>((resolve) => {
    step = resolve;
  });
  // Only `load` may make one, which needs the wasm module.
  const Made = Engine as unknown as new (running: Running, options: LoadOptions) => Engine;
  const engine = new Made({ wasm, host: null }, { model: 'a.gguf' });
  return { wasm, engine, step: () => step() };
}

test('dispose ends every call that runs or waits, at once and with disposed', async () => {
  const { engine } = setUp();
  const running = engine.chat.completions.create({ messages });
  const waiting = [engine.chat.completions.create({ messages }), engine.chat.completions.create({ messages, stream: true })];
  await soon();
  engine.dispose();
  for (const call of [running, ...waiting]) await assert.rejects(call, DISPOSED);
});

test('a call made after dispose never gets a turn, streamed or not', async () => {
  const { engine, wasm } = setUp();
  engine.dispose();
  for (const stream of [true, false]) await assert.rejects(engine.chat.completions.create({ messages, stream }), DISPOSED);
  await assert.rejects(engine.reload(), DISPOSED);
  assert.throws(() => engine.info(), DISPOSED);
  assert.deepEqual(wasm.started, []);
});

test('the engine is freed after the step that is pending has come back, and once', async () => {
  const { engine, wasm, step } = setUp();
  const call = engine.chat.completions.create({ messages });
  await soon();
  engine.dispose();
  engine.dispose();
  await assert.rejects(call, DISPOSED);
  await soon();
  assert.deepEqual(wasm.log, ['cancel'], 'freed under a step that still uses it');
  step();
  await soon();
  assert.deepEqual(wasm.log, ['cancel', 'dispose']);
});

test('the engine is freed when the pending step fails, too', async () => {
  const { engine, wasm } = setUp();
  let fail = () => {};
  wasm.before = () => new Promise<void>((_, reject) => {
    fail = () => reject(new Error('the device was lost'));
  });
  const call = engine.chat.completions.create({ messages });
  await soon();
  engine.dispose();
  await assert.rejects(call, DISPOSED);
  fail();
  await soon();
  assert.equal(wasm.log.at(-1), 'dispose');
});
