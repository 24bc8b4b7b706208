import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completions } from '../src/openai/chat.js';
import { textCompletions } from '../src/openai/text.js';
import type { ChatMessage, ChatRequest } from '../src/openai/types.js';
import { platform } from '../src/platform.js';
import { Queue } from '../src/queue.js';
import type { WasmEvent, WasmRequest } from '../src/wasm.js';
import { FakeEngine } from './fakes.js';

const CONTEXT = 100;

/** An engine of which a letter is a token, with what an answer tells at its end. */
function setUp(leftOut?: number) {
  const engine = new FakeEngine();
  engine.templateText = 'developer tool_calls';
  engine.info = () => JSON.stringify({ contextLength: CONTEXT, model: { name: 'fake' } });
  engine.tokenizeMessages = (json) => {
    const { messages } = JSON.parse(json) as WasmRequest;
    return engine.tokenize(messages.map(({ content }) => content).join(''), false);
  };
  const done: WasmEvent = { type: 'done', reason: 'stop', promptTokens: 5, completionTokens: 3, ...(leftOut !== undefined && { leftOut }) };
  engine.events = [{ type: 'text', text: 'Hi' }, done];
  const api = completions({ engine, queue: new Queue(), platform, modelName: 'fake' });
  const text = (ids: readonly number[] | undefined) => engine.detokenize(Uint32Array.from(ids!));
  return {
    engine,
    api,
    /** What the prompt is, what the answer goes on from, and what the usage says was left out. */
    ask: async (request: Omit<ChatRequest, 'overflow' | 'stream'>) => {
      const { usage } = await api.create({ ...request, overflow: 'slide' });
      const { prompt_ids, slide_ids } = engine.started.at(-1) as WasmRequest;
      return { prompt: text(prompt_ids), stays: text(slide_ids), leftOut: usage.left_out };
    },
  };
}

const say = (role: ChatMessage['role'], letter: string, n = 10): ChatMessage => ({ role, content: letter.repeat(n) });
/** Turns of 20 tokens between the system's message of ten and the newest question. */
const chat = (letters: string): ChatMessage[] => [
  say('system', 's'), ...[...letters].flatMap((letter) => [say('user', letter), say('assistant', letter.toUpperCase())]), say('user', '?'),
];
const spelled = (letters: string) => chat(letters).map(({ content }) => content as string).join('');

test('a text without messages loses its oldest tokens, by quarters of the context, but not those that begin texts', async () => {
  const { engine } = setUp();
  const text = (ids: readonly number[] | undefined) => new TextDecoder().decode(Uint8Array.from(ids!));
  const api = textCompletions({ engine, queue: new Queue(), platform, modelName: 'fake' });
  const letters = (n: number) => Array.from({ length: n }, (_, i) => String.fromCharCode(97 + i % 26)).join('');
  const ask = async (prompt: string | number[], max_tokens: number, first = '') => {
    engine.tokenize = (text, special) => new TextEncoder().encode((special ? first : '') + text) as unknown as Uint32Array<ArrayBuffer>;
    const { usage } = await api.create({ prompt, max_tokens, overflow: 'slide', echo: typeof prompt === 'string' });
    const { prompt_ids, slide_ids } = engine.started.at(-1) as WasmRequest;
    return { prompt: text(prompt_ids), stays: text(slide_ids), leftOut: usage.left_out };
  };
  engine.events = [{ type: 'text', text: 'Hi' }, { type: 'done', reason: 'length', promptTokens: 5, completionTokens: 3 }];
  assert.deepEqual(await ask(letters(84), 16), { prompt: letters(84), stays: '', leftOut: undefined });
  assert.deepEqual(await ask(letters(85), 16), { prompt: letters(85).slice(25), stays: '', leftOut: { messages: 0, tokens: 25 } });
  // A long answer has a quarter of the context.
  assert.deepEqual((await ask(letters(76), 99)).prompt, letters(76).slice(25));
  const begun = await ask(letters(120), 16, '^');
  assert.deepEqual(begun, { prompt: `^${letters(120).slice(50)}`, stays: '^', leftOut: { messages: 0, tokens: 50 } });
  // Ids are taken as they are: these begin nowhere.
  const ids = [...new TextEncoder().encode(letters(90))];
  assert.deepEqual((await ask(ids, 16, '^')).stays, '');
  assert.deepEqual((await ask([94, ...ids], 16, '^')), { prompt: `^${letters(90).slice(25)}`, stays: '^', leftOut: { messages: 0, tokens: 25 } });
  // Behind a slide nothing of the prompt is there.
  engine.events = [{ type: 'text', text: 'Hi' }, { type: 'done', reason: 'length', promptTokens: 5, completionTokens: 3, leftOut: 30 }];
  assert.deepEqual((await ask(letters(80), 99, '^')).leftOut, { messages: 0, tokens: 110 });
  await assert.rejects(api.create({ prompt: 'a', overflow: 'drop' as 'slide' }), { code: 'usage', at: 'overflow' });
});

test('what fits beside room for an answer stays, and half a context when it is full', async () => {
  const { ask } = setUp();
  assert.deepEqual(await ask({ messages: chat('ab') }), { prompt: spelled('ab'), stays: spelled('b'), leftOut: undefined });
});

test('what was left out of an answer that slid counts with the turns that gave way', async () => {
  const { ask } = setUp(7);
  assert.deepEqual((await ask({ messages: chat('ab') })).leftOut, { messages: 2, tokens: 27 });
});

test('oldest turns are left out by quarters of the context, so that prompts begin alike', async () => {
  const { ask } = setUp();
  const prompts = [];
  for (const letters of ['abc', 'abcd', 'abcde', 'abcdef']) prompts.push((await ask({ messages: chat(letters) })).prompt);
  assert.deepEqual(prompts, ['c', 'cd', 'de', 'ef'].map(spelled));
  assert.deepEqual((await ask({ messages: chat('abcde') })).leftOut, { messages: 6, tokens: 60 });
  // A short answer leaves more of the context to the messages.
  assert.equal((await ask({ messages: chat('abc'), max_tokens: 20 })).prompt, spelled('abc'));
});

test('a turn goes with its calls of tools, messages of system and developer stay wherever they are', async () => {
  const { ask } = setUp();
  const call = { id: 'a', type: 'function' as const, function: { name: 'f', arguments: '{}' } };
  const tool = (letter: string): ChatMessage[] => [
    say('user', letter, 15), { ...say('assistant', letter, 15), tool_calls: [call] }, { ...say('tool', letter, 15), tool_call_id: 'a' },
  ];
  const messages = [say('assistant', 'h', 5), ...tool('a'), say('developer', 'd', 5), ...tool('b')];
  const { prompt, leftOut } = await ask({ messages });
  assert.equal(prompt, 'd'.repeat(5) + 'b'.repeat(45));
  assert.deepEqual(leftOut, { messages: 4, tokens: 50 });
});

test('where what stays does not fit, the error says by how much', async () => {
  const { api, engine } = setUp();
  const messages = [say('system', 's', 30), ...chat('abc').slice(1, -1), say('user', '?', 50)];
  await assert.rejects(api.create({ messages, overflow: 'slide' }), {
    code: 'context_full',
    at: 'messages',
    what: 'what cannot be left out of the messages has 80 tokens, and an answer takes 25: the context holds 100',
  });
  assert.equal(engine.started.length, 0);
});

test('a signal ends a call whose turns are being counted', async () => {
  const { api, engine } = setUp();
  const abort = new AbortController();
  const counted = engine.tokenizeMessages;
  engine.tokenizeMessages = (json) => {
    abort.abort();
    return counted(json);
  };
  await assert.rejects(api.create({ messages: chat('abc'), overflow: 'slide', signal: abort.signal }), { code: 'cancelled' });
  assert.equal(engine.started.length, 0);
});

test('without it nothing is counted, and another value is refused', async () => {
  const { api, engine } = setUp();
  for (const overflow of [undefined, null, 'error'] as const) {
    await api.create({ messages: chat('abcdef'), overflow });
    assert.equal((engine.started.at(-1) as WasmRequest).slide_ids, undefined);
  }
  await assert.rejects(api.create({ messages: chat(''), overflow: 'drop' as 'slide' }), { code: 'usage', at: 'overflow' });
});
