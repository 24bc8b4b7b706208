/** The adapter under the real `@langchain/core`. */

import { InMemoryCache } from '@langchain/core/caches';
import { ContextOverflowError, LangChainError, ModelAbortError } from '@langchain/core/errors';
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import type { AIMessageChunk } from '@langchain/core/messages';
import { StringOutputParser } from '@langchain/core/output_parsers';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { ChatRlx } from '../src/adapters/langchain.js';
import type { ChatRlxParams } from '../src/adapters/langchain.js';
import { RlxError } from '../src/error.js';
import type { WasmEvent } from '../src/wasm.js';
import { FakeEngine } from './fakes.js';
import { PLACES } from './places.js';

const done = (reason: 'stop' | 'length' = 'stop'): WasmEvent => ({ type: 'done', reason, promptTokens: 5, completionTokens: 2 });
const texts = (...all: string[]): WasmEvent[] => all.map((text) => ({ type: 'text', text }));
const started = (wasm: FakeEngine, i = 0) => wasm.started[i] as { [key: string]: unknown };

for (const { name, engine: engineAt } of PLACES) {
  const setUp = async (t: TestContext, params: Partial<ChatRlxParams> = {}, events: WasmEvent[] = [...texts('Hel', 'lo'), done()]) => {
    const wasm = new FakeEngine();
    wasm.events = events;
    const engine = await engineAt(wasm);
    t.after(() => engine.dispose());
    return { wasm, chat: new ChatRlx({ engine, ...params }) };
  };

  test(`${name}: invoke has the text, the usage, the reason and the model's name`, async (t) => {
    const { wasm, chat } = await setUp(t, { temperature: 0, max_tokens: 9 });
    const messages = [new SystemMessage('Be short.'), new HumanMessage({ content: [{ type: 'text', text: 'one ' }, { type: 'text', text: 'two' }] }), new AIMessage('Yes?'), new HumanMessage('Hi')];
    const answer = await chat.invoke(messages, { stop: ['END'], max_tokens: 7, min_p: 0.25 });
    assert.equal(answer.content, 'Hello');
    assert.deepEqual(answer.usage_metadata, { input_tokens: 5, output_tokens: 2, total_tokens: 7 });
    assert.equal(answer.response_metadata.finish_reason, 'stop');
    assert.equal(answer.response_metadata.model_name, 'fake');
    const { messages: told, temperature, max_tokens, stop, min_p } = started(wasm);
    assert.deepEqual(told, [
      { role: 'system', content: 'Be short.' }, { role: 'user', content: 'one two' }, { role: 'assistant', content: 'Yes?' }, { role: 'user', content: 'Hi' },
    ]);
    assert.deepEqual({ temperature, max_tokens, stop, min_p }, { temperature: 0, max_tokens: 7, stop: ['END'], min_p: 0.25 });
  });

  test(`${name}: a stream has texts as they come; together they are the answer`, async (t) => {
    const { chat } = await setUp(t, {}, [...texts('a', 'b', 'c'), done('length')]);
    let answer: AIMessageChunk | undefined;
    const seen: unknown[] = [];
    for await (const chunk of await chat.stream('Hi')) {
      seen.push(chunk.content);
      answer = answer ? answer.concat(chunk) : chunk;
    }
    assert.deepEqual(seen, ['a', 'b', 'c', '']);
    assert.equal(answer!.content, 'abc');
    const { input_tokens, output_tokens, total_tokens } = answer!.usage_metadata!;
    assert.deepEqual([input_tokens, output_tokens, total_tokens], [5, 2, 7]);
    assert.deepEqual([answer!.response_metadata.finish_reason, answer!.response_metadata.model_name], ['length', 'fake']);
  });

  test(`${name}: a chain of a prompt, the model and a parser answers, whole and streamed`, async (t) => {
    const { wasm, chat } = await setUp(t);
    const chain = ChatPromptTemplate.fromMessages([['system', 'Speak {language}.'], ['human', '{question}']]).pipe(chat).pipe(new StringOutputParser());
    assert.equal(await chain.invoke({ language: 'French', question: 'Hi?' }), 'Hello');
    assert.deepEqual(started(wasm).messages, [{ role: 'system', content: 'Speak French.' }, { role: 'user', content: 'Hi?' }]);
    const seen: string[] = [];
    for await (const text of await chain.stream({ language: 'French', question: 'Hi?' })) seen.push(text);
    assert.equal(seen.join(''), 'Hello');
  });

  test(`${name}: a signal ends a call with what it has so far, and the next call works`, async (t) => {
    const { wasm, chat } = await setUp(t, {}, [...texts('one ', 'two ', 'three'), done()]);
    const abort = new AbortController();
    wasm.before = (n) => {
      if (n === 2) abort.abort();
    };
    await assert.rejects(chat.invoke('Hi', { signal: abort.signal }), (error: unknown) =>
      ModelAbortError.isInstance(error) && error.partialOutput?.content === 'one two ' && error.cause instanceof RlxError);
    wasm.before = () => {};
    assert.equal((await chat.invoke('Hi')).content, 'one two three');
    for await (const _ of await chat.stream('Hi')) break;
    assert.equal((await chat.invoke('Hi')).content, 'one two three');
  });

  test(`${name}: callbacks hear of tokens, and of the end`, async (t) => {
    const { chat } = await setUp(t);
    const heard: string[] = [];
    const callbacks = [{ handleLLMNewToken: (token: string) => void heard.push(token), handleLLMEnd: () => void heard.push('end') }];
    for await (const _ of await chat.stream('Hi', { callbacks }));
    assert.deepEqual(heard, ['Hel', 'lo', '', 'end']);
  });
}

const fake = async (params: Partial<ChatRlxParams> = {}) => {
  const wasm = new FakeEngine();
  wasm.events = [...texts('Hello'), done()];
  return { wasm, chat: new ChatRlx({ engine: await PLACES[0]!.engine(wasm), ...params }) };
};

test('what is not done is LangChain\'s error, before the engine is asked', async () => {
  const { wasm, chat } = await fake();
  const call = new AIMessage({ content: '', tool_calls: [{ name: 'f', args: {}, id: '1' }] });
  for (const work of [
    () => chat.invoke('Hi', { tool_choice: 'any' }),
    () => chat.invoke([new ToolMessage({ content: '', tool_call_id: '1' })]),
    () => chat.invoke([call]),
    () => chat.invoke([new HumanMessage({ content: [{ type: 'image_url', image_url: { url: 'data:,' } }] })]),
    async () => {
      for await (const _ of await chat.withConfig({ tools: [] } as object).stream('Hi'));
    },
  ]) await assert.rejects(work, LangChainError.isInstance);
  assert.equal(wasm.started.length, 0);
});

test('errors of the engine are LangChain\'s where it has one, else the engine\'s', async () => {
  const { wasm, chat } = await fake();
  await assert.rejects(chat.invoke('Hi', { temperature: 5 }), { name: 'RlxError', code: 'usage', at: 'temperature' });
  wasm.start = () => {
    throw JSON.stringify({ code: 'context_full', what: 'the prompt is too long' });
  };
  await assert.rejects(chat.invoke('Hi'), ContextOverflowError.isInstance);
});

test('a cache tells settings apart', async () => {
  const cache = new InMemoryCache();
  const { wasm, chat } = await fake({ cache, temperature: 0 });
  await chat.invoke('Hi');
  await chat.invoke('Hi');
  assert.equal(wasm.started.length, 1);
  await chat.invoke('Hi', { max_tokens: 1 });
  assert.equal(wasm.started.length, 2);
  const other = new ChatRlx({ engine: await PLACES[0]!.engine(wasm), cache, temperature: 1 });
  await other.invoke('Hi');
  assert.equal(wasm.started.length, 3);
});

test('tokens are counted by the model', async () => {
  const { chat } = await fake();
  assert.equal(await chat.getNumTokens('four'), 4);
});
