/** The Prompt API on an engine, as pages use it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { install, languageModel } from '../src/adapters/language_model.js';
import type { LanguageModelPrompt, LanguageModelStatic, LanguageModelTool } from '../src/adapters/language_model.js';
import { Source } from '../src/adapters/language_model_source.js';
import type { Core } from '../src/core.js';
import { RlxError } from '../src/error.js';
import type { LoadProgress } from '../src/types.js';
import type { WasmEvent } from '../src/wasm.js';
import { FakeEngine, withHeld } from './fakes.js';
import { PLACES } from './places.js';

// Node has no such event.
globalThis.ProgressEvent ??= class extends Event {
  readonly loaded: number;
  constructor(type: string, { loaded = 0 }: ProgressEventInit = {}) {
    super(type);
    this.loaded = loaded;
  }
} as unknown as typeof ProgressEvent;

const CONTEXT = 60;

/** What a template that knows tools has. */
const TOOLS_TEMPLATE = '{{ tools }} tool_calls <tool_call> </tool_call>';

/** A fake whose prompt has a token for each message and each of its characters. */
class Talker extends FakeEngine {
  override events: WasmEvent[] = ['Hel', 'lo'].map((text) => ({ type: 'text', text }));
  contextLength = CONTEXT;
  override info() {
    return JSON.stringify({ model: { name: 'fake' }, contextLength: this.contextLength });
  }
  override tokenizeMessages(json: string) {
    const { messages } = JSON.parse(json) as { messages: { content: string }[] };
    return new Uint32Array(messages.reduce((sum, { content }) => sum + 1 + content.length, 0));
  }
  override start(request: string, constraint?: Parameters<FakeEngine['start']>[1]) {
    const promptTokens = this.tokenizeMessages(request).length;
    const done: WasmEvent = { type: 'done', reason: 'stop', promptTokens, completionTokens: 6 };
    const texts = this.events.filter(({ type }) => type === 'text');
    this.events = [...texts, done];
    return super.start(request, constraint);
  }
  messages(i: number) {
    return (this.started[i] as { messages: { role: string; content: string }[] }).messages.map(({ role, content }) => `${role[0]} ${content}`);
  }
}

const named = (name: string) => (error: unknown) => (error as Error).name === name;

for (const { name, engine: engineAt } of PLACES) {
  const setUp = async (t: TestContext, template = '', contextLength = CONTEXT) => {
    const wasm = Object.assign(new Talker(), { contextLength });
    wasm.templateText = template;
    const engine = await engineAt(wasm);
    t.after(() => engine.dispose());
    return { wasm, engine, LanguageModel: languageModel({ engine }) };
  };

  test(`${name}: a session keeps its conversation and counts its tokens`, async (t) => {
    const { wasm, LanguageModel } = await setUp(t);
    const session = await LanguageModel.create({ initialPrompts: [{ role: 'system', content: 'Short.' }] });
    assert.ok(session instanceof (LanguageModel as unknown as typeof EventTarget));
    assert.equal(session.contextWindow, CONTEXT);
    assert.equal(session.contextUsage, 7);
    assert.equal(await session.measureContextUsage('one'), 4);
    assert.equal(await session.prompt('one'), 'Hello');
    assert.equal(session.contextUsage, 11 + 6);
    await session.append([{ role: 'user', content: [{ type: 'text', value: 't' }, { type: 'text', value: 'wo' }] }]);
    assert.equal(session.contextUsage, 17 + 4);
    await session.prompt('three');
    assert.deepEqual(wasm.messages(1), ['s Short.', 'u one', 'a Hello', 'u two', 'u three']);
    assert.deepEqual([session.inputUsage, session.inputQuota], [session.contextUsage, CONTEXT]);
  });

  test(`${name}: thoughts are not told, and are no part of the conversation`, async (t) => {
    const { wasm, LanguageModel } = await setUp(t, '<think></think>');
    wasm.events = ['<think>hm</think>', 'Hi'].map((text) => ({ type: 'text', text }));
    const session = await LanguageModel.create();
    assert.equal(await session.prompt('one'), 'Hi');
    assert.equal(session.contextUsage, 4 + 3);
    assert.equal(await session.prompt('two'), 'Hi');
    assert.deepEqual(wasm.messages(1), ['u one', 'a Hi', 'u two']);
  });

  test(`${name}: what the model calls is run, beside each other, and told; then it answers, and all of it is the conversation`, async (t) => {
    const { wasm, LanguageModel } = await setUp(t, TOOLS_TEMPLATE, 1000);
    const call = (city: string) => `<tool_call>{"name": "weather", "arguments": {"city": "${city}"}}</tool_call>`;
    const turns = [`Let me see. ${call('Bern')}${call('Rome')}`, 'Bern.', 'Hello'];
    const start = wasm.start.bind(wasm);
    wasm.start = (request: string) => {
      wasm.events = [{ type: 'text', text: turns.shift()! }];
      return start(request);
    };
    wasm.tokenizeMessages = (json) => new Uint32Array((JSON.parse(json) as { messages: object[] }).messages.length);
    const asked: string[] = [];
    let release = () => {};
    const both = new Promise<void>((resolve) => {
      release = resolve;
    });
    const weather = {
      name: 'weather', description: 'Tells the weather.', inputSchema: { type: 'object' },
      async execute({ city }: { city: string }) {
        if (asked.push(city) === 2) release();
        await both; // neither waits for the other
        return `sunny in ${city}`;
      },
    };
    const session = await LanguageModel.create({ tools: [weather] });
    assert.ok(session.contextUsage > 0, 'tools need room');
    let streamed = '';
    for await (const text of session.promptStreaming('Which?')) streamed += text;
    assert.equal(streamed, 'Let me see.Bern.'); // blanks before a call are part of it
    assert.deepEqual(asked, ['Bern', 'Rome']);
    assert.deepEqual((wasm.started[0] as { variables: object }).variables, {
      tools: [{ type: 'function', function: { name: 'weather', description: 'Tells the weather.', parameters: { type: 'object' } } }],
    });
    assert.deepEqual(wasm.messages(1), ['u Which?', 'a Let me see.', 't sunny in Bern', 't sunny in Rome']);
    assert.equal(await session.prompt('And?'), 'Hello');
    assert.deepEqual(wasm.messages(2), ['u Which?', 'a Let me see.', 't sunny in Bern', 't sunny in Rome', 'a Bern.', 'u And?']);
  });

  test(`${name}: a call that fails, that nobody knows, or that is waited for when the signal fires ends the prompt`, async (t) => {
    const { wasm, LanguageModel } = await setUp(t, TOOLS_TEMPLATE, 1000);
    wasm.tokenizeMessages = (json) => new Uint32Array((JSON.parse(json) as { messages: object[] }).messages.length);
    wasm.events = [{ type: 'text', text: '<tool_call>{"name": "weather", "arguments": {}}</tool_call>' }];
    const tool = (execute: () => Promise<string>, name = 'weather') => ({ name, description: 'a', inputSchema: {}, execute });
    const abort = new AbortController();
    const [failing, other, endless] = await Promise.all([
      LanguageModel.create({ tools: [tool(() => Promise.reject(new Error('no network')))] }),
      LanguageModel.create({ tools: [tool(async () => '', 'another')] }),
      LanguageModel.create({ tools: [tool(() => new Promise(() => abort.abort()))] }),
    ]);
    const before = endless.contextUsage;
    await assert.rejects(failing.prompt('a'), /no network/);
    await assert.rejects(other.prompt('a'), named('OperationError'));
    await assert.rejects(endless.prompt('a', { signal: abort.signal }), named('AbortError'));
    // Nothing of these is part of a conversation.
    assert.equal(wasm.started.length, 3);
    await failing.append('b');
    assert.deepEqual([failing, other, endless].map((session) => session.contextUsage - before), [1, 0, 0]);
  });

  test(`${name}: a stream has texts as they come, runs unread, and calls keep their order`, async (t) => {
    const { wasm, LanguageModel } = await setUp(t);
    const session = await LanguageModel.create();
    const unread = session.promptStreaming('one');
    assert.equal(await session.prompt('two'), 'Hello');
    assert.deepEqual(wasm.messages(1), ['u one', 'a Hello', 'u two']);
    const seen: string[] = [];
    for await (const text of unread) seen.push(text);
    assert.deepEqual(seen, ['Hel', 'lo']);
  });

  test(`${name}: an aborted or left answer is not part of the conversation`, async (t) => {
    const { wasm, LanguageModel } = await setUp(t);
    const session = await LanguageModel.create();
    const abort = new AbortController();
    const reason = new Error('enough');
    wasm.before = (n) => {
      if (n === 1) abort.abort(reason);
    };
    await assert.rejects(session.prompt('one', { signal: abort.signal }), reason);
    await assert.rejects(session.prompt('one', { signal: abort.signal }), reason);
    wasm.before = () => {};
    const reader = session.promptStreaming('two').getReader();
    await reader.read();
    await reader.cancel();
    assert.equal(await session.prompt('three'), 'Hello');
    assert.deepEqual(wasm.messages(wasm.started.length - 1), ['u three']);
  });

  test(`${name}: a clone goes on by itself, and destroying one leaves the other`, async (t) => {
    const { wasm, LanguageModel } = await setUp(t);
    const session = await LanguageModel.create({ temperature: 9, topK: 3.5 });
    await session.prompt('one');
    const clone = await session.clone();
    assert.deepEqual([clone.temperature, clone.topK, clone.samplingMode, clone.contextUsage], [2, 3, null, session.contextUsage]);
    await session.prompt('two');
    const late = assert.rejects(session.prompt('never'), named('AbortError'));
    session.destroy();
    await late;
    await assert.rejects(session.prompt('never'), named('AbortError'));
    await assert.rejects(async () => {
      for await (const _ of session.promptStreaming('never'));
    }, named('AbortError'));
    await clone.prompt('three');
    assert.deepEqual(wasm.messages(wasm.started.length - 1), ['u one', 'a Hello', 'u three']);
    const { temperature, top_k } = wasm.started.at(-1) as Record<string, unknown>;
    assert.deepEqual([temperature, top_k], [2, 3]);
  });

  test(`${name}: what does not fit drops the oldest pair, but not what the session began with`, async (t) => {
    const { wasm, LanguageModel } = await setUp(t);
    const session = await LanguageModel.create({ initialPrompts: [{ role: 'system', content: 'S' }] });
    const events: string[] = [];
    session.addEventListener('contextoverflow', ({ type }) => events.push(type));
    session.oncontextoverflow = ({ type }) => events.push(`on${type}`);
    session.onquotaoverflow = ({ type }) => events.push(`on${type}`);
    await session.prompt('one');
    await session.prompt('two');
    assert.deepEqual(events, []);
    await session.prompt('x'.repeat(40));
    assert.deepEqual(wasm.messages(2), ['s S', 'u two', 'a Hello', `u ${'x'.repeat(40)}`]);
    assert.deepEqual(events, ['contextoverflow', 'oncontextoverflow', 'onquotaoverflow']);
    const before = session.contextUsage;
    await assert.rejects(session.append('x'.repeat(CONTEXT)), (error: unknown) =>
      named('QuotaExceededError')(error) && (error as { quota: number }).quota === CONTEXT && (error as { requested: number }).requested > CONTEXT);
    assert.equal(session.contextUsage, before);
    await assert.rejects(LanguageModel.create({ initialPrompts: [{ role: 'user', content: 'x'.repeat(CONTEXT) }] }), named('QuotaExceededError'));
  });
}

async function fake(template = ''): Promise<{ wasm: Talker; engine: Core; LanguageModel: LanguageModelStatic }> {
  const wasm = new Talker();
  wasm.templateText = template;
  const engine = await PLACES[0]!.engine(wasm);
  return { wasm, engine, LanguageModel: languageModel({ engine }) };
}

test('what is not done is a NotSupportedError, and unavailable', async () => {
  const { wasm, LanguageModel } = await fake();
  const session = await LanguageModel.create();
  const image = [{ role: 'user', content: [{ type: 'image', value: new Blob() }] }] as const;
  const prefix = [{ role: 'assistant', content: '{', prefix: true }] as const;
  for (const work of [
    () => session.prompt(image), () => session.append(image), () => session.prompt(prefix), () => session.measureContextUsage(image),
    () => session.prompt('a', { responseConstraint: /a/i }),
    () => LanguageModel.create({ expectedOutputs: [{ type: 'tool-call' }] }), () => LanguageModel.create({ thinking: { effort: 'high' } }),
    () => LanguageModel.create({ expectedInputs: [{ type: 'audio' }] }), () => LanguageModel.create({ initialPrompts: image }),
  ]) await assert.rejects(work, named('NotSupportedError'));
  assert.equal(wasm.started.length, 0);
  assert.equal(await LanguageModel.availability({ expectedInputs: [{ type: 'image' }] }), 'unavailable');
  assert.equal(await LanguageModel.availability({ expectedInputs: [{ type: 'text', languages: ['fr'] }] }), 'available');
});

test('a constraint is asked for as a form, and told to the model unless it is left out', async (t) => {
  const asked = withHeld(t);
  const { wasm, LanguageModel } = await fake();
  wasm.contextLength = 1000;
  const session = await LanguageModel.create();
  await session.prompt('a', { responseConstraint: { type: 'number' } });
  await session.prompt('b', { responseConstraint: /yes|no/ });
  await session.prompt('c', { responseConstraint: /yes|no/, omitResponseConstraintInput: true });
  await session.prompt('d');
  const regex = { grammar: { syntax: 'regex', definition: 'yes|no' } };
  assert.deepEqual(asked, [{ response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: { type: 'number' } } } }, regex, regex]);
  assert.deepEqual(wasm.constrained, [true, true, true, false]);
  assert.deepEqual(wasm.messages(3).filter((told) => told.startsWith('u')), [
    'u a\n\nAnswer with JSON of this schema: {"type":"number"}', 'u b\n\nAnswer with a text that this regular expression matches: yes|no', 'u c', 'u d',
  ]);
});

test('a constraint that cannot be used is not supported', async (t) => {
  withHeld(t, new RlxError('usage', 'this is no grammar', { at: 'grammar' }));
  const { wasm, LanguageModel } = await fake();
  const session = await LanguageModel.create();
  await assert.rejects(session.prompt('a', { responseConstraint: /a/, omitResponseConstraintInput: true }), named('NotSupportedError'));
  assert.equal(wasm.started.length, 0);
});

const NOTHING: LanguageModelTool = { name: 'nothing', description: 'Does nothing.', inputSchema: {}, execute: async () => '' };

test('a model without tools does not support them', async () => {
  const { wasm, LanguageModel } = await fake('{{ messages }}');
  wasm.contextLength = 1000;
  const session = await LanguageModel.create({ tools: [NOTHING] });
  await assert.rejects(session.prompt('a'), named('NotSupportedError'));
});

test('wrong arguments have the errors of the specification', async () => {
  const { LanguageModel } = await fake();
  const session = await LanguageModel.create();
  await session.append('a');
  const cases: [string, () => Promise<unknown>][] = [
    ['TypeError', () => session.prompt([{ role: 'system', content: 'late' }])],
    ['TypeError', () => session.prompt([{ role: 'tool', content: 'a' }] as unknown as LanguageModelPrompt)],
    ['TypeError', () => session.prompt([{ role: 'user', content: [{ type: 'text', value: 1 }] }])],
    ['TypeError', () => session.prompt('a', { omitResponseConstraintInput: true })],
    ['SyntaxError', () => session.prompt([{ role: 'user', content: 'a', prefix: true }])],
    ['TypeError', () => LanguageModel.create({ tools: [{} as LanguageModelTool] })],
    ['TypeError', () => LanguageModel.create({ tools: [NOTHING, NOTHING] })],
    ['RangeError', () => LanguageModel.create({ temperature: -1 })],
    ['RangeError', () => LanguageModel.create({ topK: 0 })],
    ['RangeError', () => LanguageModel.availability({ expectedInputs: [{ type: 'text', languages: ['no language'] }] })],
    ['TypeError', () => LanguageModel.create({ samplingMode: 'wild' as 'creative' })],
    ['TypeError', () => LanguageModel.create({ samplingMode: 'creative', topK: 1 })],
    ['TypeError', async () => new (LanguageModel as unknown as new () => unknown)()],
  ];
  for (const [name, work] of cases) await assert.rejects(work, named(name), name);
});

test('the errors of the engine have names of the API, and the engine\'s as their cause', async () => {
  const { wasm, LanguageModel } = await fake();
  const session = await LanguageModel.create();
  wasm.start = () => {
    throw JSON.stringify({ code: 'device_lost', what: 'the device was lost' });
  };
  await assert.rejects(session.prompt('a'), (error: unknown) =>
    named('UnknownError')(error) && error instanceof DOMException && (error.cause as { code: string }).code === 'device_lost');
});

test('params, sampling modes, and a monitor that hears 0 and 1', async () => {
  const { LanguageModel } = await fake();
  const { maxTemperature, maxTopK, defaultTopK } = await LanguageModel.params();
  assert.ok(maxTemperature === 2 && defaultTopK <= maxTopK);
  assert.equal((await LanguageModel.create()).samplingMode, 'balanced');
  assert.equal((await LanguageModel.create({ samplingMode: 'creative' })).samplingMode, 'creative');
  const loaded: number[] = [];
  await LanguageModel.create({ monitor: (m) => m.addEventListener('downloadprogress', (event) => loaded.push((event as ProgressEvent).loaded)) });
  assert.deepEqual(loaded, [0, 1]);
});

test('install puts the class where there is none', () => {
  const global = globalThis as { LanguageModel?: LanguageModelStatic };
  assert.equal(install({ model: 'a.gguf' }), true);
  const first = global.LanguageModel;
  assert.equal((first as { name?: string }).name, 'LanguageModel');
  assert.equal(install({ model: 'b.gguf' }), false);
  assert.equal(global.LanguageModel, first);
  delete global.LanguageModel;
});

/** A source whose loads end when the test says so. */
function loads() {
  const all: { signal: AbortSignal; tell(share: number): void; end(error?: Error): void; disposed: boolean }[] = [];
  const source = new Source(({ signal, onProgress }) => new Promise((resolve, reject) => {
    const load = {
      signal: signal!, disposed: false,
      tell: (share: number) => onProgress?.({ loadedBytes: share, totalBytes: 1 } as LoadProgress),
      end(error?: Error) {
        if (error) reject(error);
        else resolve({ dispose: () => void (load.disposed = true) } as never);
      },
    };
    all.push(load);
  }));
  return { all, source };
}

test('sessions share one load, which stops when nobody waits for it', async () => {
  const { all, source } = loads();
  const [a, b] = [new AbortController(), new AbortController()];
  const told: number[] = [];
  assert.equal(source.state, 'downloadable');
  const waits = [a, b].map(({ signal }) => source.acquire(signal, (share) => told.push(share)));
  all[0]!.tell(0.5);
  assert.deepEqual(told, [0.5, 0.5]);
  assert.equal(source.state, 'downloading');
  a.abort();
  await assert.rejects(waits[0]!, named('AbortError'));
  assert.equal(all[0]!.signal.aborted, false);
  b.abort();
  await assert.rejects(waits[1]!, named('AbortError'));
  assert.equal(all[0]!.signal.aborted, true);
  const again = source.acquire(new AbortController().signal, () => {});
  all[1]!.end(new Error('gone'));
  await assert.rejects(again, { message: 'gone' });
  assert.equal(source.state, 'downloadable');
});

test('a model without sessions stays for a minute', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { all, source } = loads();
  const { signal } = new AbortController();
  const use = async () => {
    const engine = source.acquire(signal, () => {});
    all.at(-1)!.end();
    await engine;
  };
  await use();
  source.release();
  t.mock.timers.tick(59_000);
  await use();
  t.mock.timers.tick(59_000);
  assert.deepEqual([all.length, source.state], [1, 'available']);
  source.release();
  t.mock.timers.tick(61_000);
  await Promise.resolve();
  assert.deepEqual([all[0]!.disposed, source.state], [true, 'downloadable']);
});
