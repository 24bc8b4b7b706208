/** An engine behind a port: what travels, in which order, and how either side ends it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Core } from '../src/core.js';
import { RlxError } from '../src/error.js';
import { connect } from '../src/in_worker.js';
import { RemoteEngine } from '../src/remote.js';
import { serve } from '../src/serve.js';
import type { LoadProgress, Notice } from '../src/types.js';
import { VERSION, WINDOW } from '../src/wire.js';
import type { WasmEvent } from '../src/wasm.js';
import { FakeEngine } from './fakes.js';
import { local } from './places.js';

const messages = [{ role: 'user', content: 'hi' }] as const;
const done = (tokens: number): WasmEvent => ({ type: 'done', reason: 'stop', promptTokens: 5, completionTokens: tokens });
const texts = (...all: string[]): WasmEvent[] => [...all.map((text): WasmEvent => ({ type: 'text', text })), done(all.length)];

/** Waits for the other side's greeting. */
const greeted = (port: MessagePort) => new Promise<unknown>((resolve) => {
  port.onmessage = resolve;
});

/** A gate, and what opens it, also before anybody waits there. */
function closed(): { gate: Promise<void>; go: () => void } {
  let go = () => {};
  const gate = new Promise<void>((resolve) => { go = resolve; });
  return { gate, go };
}

async function setUp(events: WasmEvent[]) {
  const wasm = new FakeEngine();
  wasm.events = events;
  const { port1, port2 } = new MessageChannel();
  serve(port2, Promise.resolve(local(wasm)));
  return { wasm, engine: await connect(port1) };
}

test('a whole answer and a stream are those of the engine', async () => {
  const { engine, wasm } = await setUp(texts('Hel', 'lo'));
  const whole = await engine.chat.completions.create({ messages, temperature: 0, max_tokens: undefined as never });
  assert.equal(whole.choices[0]!.message.content, 'Hello');
  assert.deepEqual(whole.usage, { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 });
  const seen: string[] = [];
  for await (const chunk of await engine.chat.completions.create({ messages, stream: true })) {
    seen.push(chunk.choices[0]!.delta.content ?? String(chunk.choices[0]!.finish_reason));
  }
  assert.deepEqual(seen, ['Hel', 'lo', 'stop']);
  assert.equal((wasm.started[0] as { temperature: number }).temperature, 0);
  await engine.dispose();
});

test('texts, several answers, tools and signals of options go over a port too', async () => {
  const { engine } = await setUp(texts('a', 'b'));
  assert.deepEqual((await engine.completions.create({ prompt: ['x', 'y'], echo: true })).choices.map(({ text }) => text), ['xab', 'yab']);
  const seen: (string | null)[] = [];
  for await (const { choices } of await engine.completions.create({ prompt: 'x', stream: true })) seen.push(choices[0]!.text);
  assert.deepEqual(seen, ['a', 'b', '']);
  const several = await engine.chat.completions.create({ messages, n: 2, tools: undefined, logit_bias: { 5: 1 } });
  assert.equal(several.choices.length, 2);
  const abort = new AbortController();
  abort.abort();
  await assert.rejects(engine.chat.completions.create({ messages }, { signal: abort.signal }), { code: 'cancelled' });
  await assert.rejects(engine.chat.completions.create({ messages }, { timeout: 1 } as object), { code: 'usage', at: 'timeout' });
  await engine.dispose();
});

test('an error has its code, place, hint and the text before it', async () => {
  const { engine, wasm } = await setUp(texts('Hel', 'lo'));
  await assert.rejects(engine.chat.completions.create({ messages, temperature: 5 }), (error: unknown) =>
    error instanceof RlxError && error.code === 'usage' && error.at === 'temperature');
  wasm.before = (n) => {
    if (n === 1) throw new Error('gone');
  };
  await assert.rejects(engine.chat.completions.create({ messages }), (error: unknown) =>
    error instanceof RlxError && error.code === 'internal' && error.text === 'Hel' && (error.cause as Error).message === 'gone');
  await engine.dispose();
});

test('what cannot be copied is refused, and the engine goes on', async () => {
  const { engine } = await setUp(texts('a'));
  await assert.rejects(engine.chat.completions.create({ messages, stop: (() => {}) as never }), { code: 'usage' });
  assert.equal((await engine.chat.completions.create({ messages })).choices[0]!.message.content, 'a');
  await engine.dispose();
});

test('a signal ends a call that runs, one that waits, and one that has not begun', async () => {
  const { engine, wasm } = await setUp(texts('Hel', 'lo', 'again'));
  const { gate, go } = closed();
  wasm.before = (n) => (n === 1 ? gate : undefined);
  const abort = new AbortController();
  const { signal } = abort;
  const running = await engine.chat.completions.create({ messages, stream: true, signal });
  const waiting = engine.chat.completions.create({ messages, signal });
  waiting.catch(() => {});
  assert.equal((await running.next()).value?.choices[0]!.delta.content, 'Hel');
  abort.abort();
  await assert.rejects(waiting, { code: 'cancelled' });
  go();
  await assert.rejects(running.next(), { code: 'cancelled', name: 'AbortError', text: 'Hel' });
  assert.deepEqual(await running.next(), { value: undefined, done: true });
  await assert.rejects(engine.chat.completions.create({ messages, signal }), { code: 'cancelled' });
  assert.equal(wasm.started.length, 1);
  await engine.dispose();
});

test('leaving a stream stops the answer, also between two chunks', { timeout: 5000 }, async () => {
  const { engine, wasm } = await setUp(texts('Hel', 'lo', 'again'));
  for await (const _ of await engine.chat.completions.create({ messages, stream: true })) break;
  assert.ok(wasm.log.includes('cancel'));
  const { gate, go } = closed();
  wasm.before = (n) => (n === 1 ? gate : undefined);
  const stream = await engine.chat.completions.create({ messages, stream: true });
  await stream.next();
  const cancelled = new Promise<void>((resolve) => {
    const { cancel } = wasm;
    wasm.cancel = () => {
      cancel.call(wasm);
      resolve();
    };
  });
  const left = stream.return!();
  await cancelled;
  go();
  assert.deepEqual(await left, { value: undefined, done: true });
  assert.equal((await engine.countTokens('abc')), 3, 'the engine goes on');
  await engine.dispose();
});

test('no more chunks are under way than the window has, and none is lost', { timeout: 10_000 }, async () => {
  const n = 3 * WINDOW;
  const wasm = new FakeEngine();
  wasm.events = texts(...Array.from({ length: n }, (_, i) => `${i},`));
  const { port1, port2 } = new MessageChannel();
  let under = 0;
  const post = port2.postMessage.bind(port2);
  port2.postMessage = ((message: object) => {
    if ('chunk' in message) under += 1;
    post(message);
  }) as typeof port2.postMessage;
  serve(port2, Promise.resolve(local(wasm)));
  const engine = await connect(port1);
  const stream = await engine.chat.completions.create({ messages, stream: true });
  while (under < WINDOW) await new Promise((resolve) => setTimeout(resolve, 1));
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(under, WINDOW, 'a reader who does not read gets no more');
  let text = '';
  let read = 0;
  for await (const chunk of stream) {
    text += chunk.choices[0]!.delta.content ?? '';
    read += 1;
    assert.ok(under - read <= WINDOW);
  }
  assert.equal(text, Array.from({ length: n }, (_, i) => `${i},`).join(''));
  await engine.dispose();
});

test('users of a shared engine end their own calls, not the engine', async () => {
  const wasm = new FakeEngine();
  wasm.events = texts('a', 'b');
  const shared = local(wasm);
  const [one, two] = await Promise.all([0, 1].map(() => {
    const { port1, port2 } = new MessageChannel();
    serve(port2, Promise.resolve(shared));
    return connect(port1);
  })) as [RemoteEngine, RemoteEngine];
  const { gate, go } = closed();
  wasm.before = () => gate;
  const call = one.chat.completions.create({ messages });
  await new Promise((resolve) => setTimeout(resolve, 20));
  const freed = one.dispose();
  await assert.rejects(call, { code: 'disposed' });
  go();
  wasm.before = () => {};
  await freed;
  assert.ok(wasm.log.includes('cancel'), 'the answer that nobody reads goes on');
  assert.ok(!wasm.log.includes('dispose'));
  assert.equal((await two.chat.completions.create({ messages })).choices[0]!.message.content, 'ab');
  await two.dispose();
  await shared.dispose();
});

test('whoever connects while the model loads waits for it, and hears why it failed', async () => {
  const { port1, port2 } = new MessageChannel();
  let load: (core: Core) => void = () => {};
  serve(port2, new Promise<Core>((resolve) => { load = resolve; }));
  const engine = connect(port1);
  load(local(new FakeEngine()));
  assert.equal((await engine).info().model.name, 'fake');
  await (await engine).dispose();
  const failing = new MessageChannel();
  serve(failing.port2, Promise.reject(new RlxError('bad_file', 'no magic', { at: 'a.gguf' })));
  await assert.rejects(connect(failing.port1), { code: 'bad_file', what: 'no magic', at: 'a.gguf' });
});

test('a worker of another version is refused', async () => {
  const { port1, port2 } = new MessageChannel();
  port2.postMessage({ hello: '0.0.1' });
  await assert.rejects(connect(port1), { code: 'usage', what: new RegExp(`0\\.0\\.1 of the package, and the page of ${VERSION}`) });
  port1.close();
});

test('waiting for an engine ends with the signal', async () => {
  const { port1 } = new MessageChannel();
  const abort = new AbortController();
  const waiting = connect(port1, { signal: abort.signal });
  abort.abort();
  await assert.rejects(waiting, { code: 'cancelled' });
  port1.close();
});

test('a load tells its listeners, lends what is stored, and stores what is found', async () => {
  const { port1, port2 } = new MessageChannel();
  const seen: { progress: LoadProgress[]; notices: Notice[]; kept: unknown[]; options?: object; lent?: object } = { progress: [], notices: [], kept: [] };
  const progress: LoadProgress = { phase: 'ready', loadedBytes: 1, from: 'file' };
  const notice: Notice = { code: 'offline', message: 'no net' };
  serve(port2, async ({ onProgress, onNotice, onLost: _, signal: __, ...options }, lent, keep) => {
    Object.assign(seen, { options, lent });
    onProgress?.(progress);
    onNotice?.(notice);
    keep('rlx.checks', 'kernels', 'good');
    return local(new FakeEngine());
  });
  await greeted(port1);
  const engine = new RemoteEngine(port1, {
    onNotice: (it) => seen.notices.push(it),
    keep: (...it) => seen.kept.push(it),
    close: () => {},
  });
  await engine.load({ model: 'a.gguf', kv: undefined as never, onProgress: (it) => seen.progress.push(it) }, { 'rlx.checks': { a: 'b' } });
  assert.deepEqual(seen, {
    progress: [progress], notices: [notice], kept: [['rlx.checks', 'kernels', 'good']], options: { model: 'a.gguf' }, lent: { 'rlx.checks': { a: 'b' } },
  });
  await engine.dispose();
});

test('a load that its signal ends frees what had been loaded', async () => {
  const { port1, port2 } = new MessageChannel();
  const wasm = new FakeEngine();
  serve(port2, ({ signal }) => new Promise((_, reject) => signal!.addEventListener('abort', () => {
    wasm.dispose();
    reject(new RlxError('cancelled', 'the load was cancelled'));
  })));
  await greeted(port1);
  const engine = new RemoteEngine(port1, { keep: () => {}, close: () => {} });
  const abort = new AbortController();
  const loading = engine.load({ model: 'a.gguf', signal: abort.signal }, {});
  abort.abort();
  await assert.rejects(loading, { code: 'cancelled' });
  assert.deepEqual(wasm.log, ['dispose']);
  await engine.dispose();
});
