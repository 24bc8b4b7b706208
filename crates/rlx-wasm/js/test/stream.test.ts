/** A stream whose reader does not wait for one chunk before asking for the next. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completions } from '../src/openai/chat.js';
import { platform } from '../src/platform.js';
import { Queue } from '../src/queue.js';
import type { WasmEvent } from '../src/wasm.js';
import { FakeEngine } from './fakes.js';

const messages = [{ role: 'user', content: 'hi' }] as const;
const DONE: WasmEvent = { type: 'done', reason: 'stop', promptTokens: 5, completionTokens: 3 };

function setUp(texts: string[]) {
  const engine = new FakeEngine();
  engine.events = [...texts.map((text): WasmEvent => ({ type: 'text', text })), DONE];
  return { engine, api: completions({ engine, queue: new Queue(), platform, modelName: 'fake' }) };
}

test('chunks asked for at once come in the order of the asking, and then it is done', { timeout: 5000 }, async () => {
  const { api } = setUp(['Hel', 'lo']);
  const chunks = await api.create({ messages, stream: true });
  const steps = await Promise.all([chunks.next(), chunks.next(), chunks.next(), chunks.next(), chunks.next()]);
  assert.deepEqual(steps.map(({ value, done }) => (done ? 'done' : value.choices[0]!.delta.content ?? value.choices[0]!.finish_reason)),
    ['Hel', 'lo', 'stop', 'done', 'done']);
});

test('of chunks asked for at once one gets the error, and those after it are done', { timeout: 5000 }, async () => {
  const { engine, api } = setUp(['Hel']);
  engine.before = (n) => {
    if (n === 1) throw new Error('gone');
  };
  const chunks = await api.create({ messages, stream: true });
  const [text, error, last] = await Promise.allSettled([chunks.next(), chunks.next(), chunks.next()]);
  assert.equal(text.status, 'fulfilled');
  assert.deepEqual(error.status === 'rejected' && [error.reason.code, error.reason.text], ['internal', 'Hel']);
  assert.deepEqual(last, { status: 'fulfilled', value: { value: undefined, done: true } });
});

test('a stream that is left ends the chunk that is asked for', { timeout: 5000 }, async () => {
  const { engine, api } = setUp(['Hel', 'lo', 'again']);
  let wait: Promise<void> | undefined;
  const next = engine.nextEvent.bind(engine);
  engine.nextEvent = async () => {
    await wait;
    return next();
  };
  const chunks = await api.create({ messages, stream: true });
  await chunks.next();
  let go = () => {};
  wait = new Promise((resolve) => {
    go = resolve;
  });
  const asked = Promise.allSettled([chunks.next(), chunks.next(), chunks.next(), chunks.next()]);
  const left = chunks.return!();
  go();
  assert.deepEqual(await left, { value: undefined, done: true });
  assert.deepEqual((await asked).at(-1), { status: 'fulfilled', value: { value: undefined, done: true } });
});
