/** The adapter under the real `@langchain/core`. */

import { InMemoryCache } from '@langchain/core/caches';
import { ContextOverflowError, LangChainError, ModelAbortError } from '@langchain/core/errors';
import { AIMessage, FunctionMessage, HumanMessage, SystemMessage } from '@langchain/core/messages';
import type { AIMessageChunk, ToolMessage } from '@langchain/core/messages';
import { StringOutputParser } from '@langchain/core/output_parsers';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { tool } from '@langchain/core/tools';
import type { StructuredToolInterface } from '@langchain/core/tools';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { z } from 'zod';
import { ChatRlx } from '../src/adapters/langchain.js';
import type { ChatRlxParams } from '../src/adapters/langchain.js';
import { RlxError } from '../src/error.js';
import type { WasmEvent } from '../src/wasm.js';
import { FakeEngine, withHeld } from './fakes.js';
import { PLACES } from './places.js';

const done = (reason: 'stop' | 'length' = 'stop'): WasmEvent => ({ type: 'done', reason, promptTokens: 5, completionTokens: 2 });
const texts = (...all: string[]): WasmEvent[] => all.map((text) => ({ type: 'text', text }));
const started = (wasm: FakeEngine, i = 0) => wasm.started[i] as { [key: string]: unknown };

/** What a template that knows tools and thoughts has; its calls and thoughts are between marks. */
const TEMPLATE = '{{ tools }} tool_calls reasoning_content <tool_call> </tool_call> <think></think>';
const CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call>';
const SCHEMA = { type: 'object' as const, properties: { city: { type: 'string' as const } }, required: ['city'] };
const weather = tool(async ({ city }: { city: string }) => `sunny in ${city}`, { name: 'weather', description: 'Tells the weather.', schema: SCHEMA });
const TOLD_CHOICE = { type: 'function' as const, function: { name: 'weather' } };
/** What the template is told of it. */
const TOLD = { type: 'function', function: { name: 'weather', description: 'Tells the weather.', parameters: SCHEMA } };

for (const { name, engine: engineAt } of PLACES) {
  const setUp = async (t: TestContext, params: Partial<ChatRlxParams> = {}, events: WasmEvent[] = [...texts('Hel', 'lo'), done()], template = '') => {
    const wasm = new FakeEngine();
    wasm.templateText = template;
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

  test(`${name}: what happens where the context is full is a setting of all calls or of one`, async (t) => {
    const { wasm, chat } = await setUp(t, { overflow: 'slide' });
    await chat.invoke('Hi');
    assert.ok(Array.isArray(started(wasm).slide_ids));
    await chat.invoke('Hi', { overflow: 'error' });
    assert.equal(started(wasm, 1).slide_ids, undefined);
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

  test(`${name}: a bound tool is called, whole and streamed, and its result goes back with the thoughts`, async (t) => {
    const { wasm, chat } = await setUp(t, {}, [...texts('<think>I must', ' look.</think>', CALL, CALL), done()], TEMPLATE);
    const bound = chat.bindTools([weather]);
    const whole = await bound.invoke('Hi');
    let streamed: AIMessageChunk | undefined;
    for await (const chunk of await bound.stream('Hi')) streamed = streamed ? streamed.concat(chunk) : chunk;
    for (const answer of [whole, streamed!]) {
      assert.equal(answer.content, '');
      assert.deepEqual(answer.tool_calls!.map(({ id, ...call }) => call), Array(2).fill({ name: 'weather', args: { city: 'Bern' }, type: 'tool_call' }));
      assert.equal(new Set(answer.tool_calls!.map(({ id }) => id)).size, 2);
      assert.equal(answer.additional_kwargs.reasoning_content, 'I must look.');
      assert.equal(answer.response_metadata.finish_reason, 'tool_calls');
    }
    assert.deepEqual(streamed!.tool_call_chunks!.map(({ index, args }) => [index, args]), [[0, '{"city":"Bern"}'], [1, '{"city":"Bern"}']]);
    assert.deepEqual(started(wasm).variables, { tools: [TOLD] });
    const [call] = streamed!.tool_calls!;
    const result = await (weather as StructuredToolInterface).invoke({ ...call!, type: 'tool_call' }) as ToolMessage;
    await bound.invoke([new HumanMessage('Hi'), new AIMessage({ content: '', tool_calls: [call!], additional_kwargs: streamed!.additional_kwargs }), result]);
    assert.deepEqual(started(wasm, 2).messages, [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant', content: '', reasoning_content: 'I must look.',
        tool_calls: [{ id: call!.id, type: 'function', function: { name: 'weather', arguments: { city: 'Bern' } } }],
      },
      { role: 'tool', tool_call_id: call!.id, name: 'weather', content: 'sunny in Bern' },
    ]);
    await chat.bindTools([weather], { tool_choice: 'none' }).invoke('Hi');
    assert.deepEqual(started(wasm, 3).variables, {});
  });

  test(`${name}: a form and a forced call are asked for`, async (t) => {
    const asked = withHeld(t);
    const { wasm, chat } = await setUp(t, {}, [...texts(CALL), done()], TEMPLATE);
    for (const tool_choice of ['any', 'required', 'weather', TOLD_CHOICE] as const) await chat.bindTools([weather], { tool_choice }).invoke('Hi');
    await chat.bindTools([weather], { parallel_tool_calls: false }).invoke('Hi');
    for await (const _ of await chat.stream('Hi', { response_format: { type: 'json_object' } }));
    await chat.invoke('Hi', { grammar: 'root ::= "a"' });
    await chat.bindTools([weather], { tool_choice: 'auto' }).invoke('Hi');
    const required = { tool_choice: 'required' };
    assert.deepEqual(asked, [
      required, required, { tool_choice: TOLD_CHOICE }, { tool_choice: TOLD_CHOICE }, { parallel_tool_calls: false },
      { response_format: { type: 'json_object' } }, { grammar: 'root ::= "a"' },
    ]);
    assert.deepEqual(wasm.constrained, [...Array<boolean>(7).fill(true), false]);
  });

  test(`${name}: log probabilities are where LangChain's OpenAI model has them, whole and streamed`, async (t) => {
    const likely = (text: string, logprob: number) => ({ chosen: [1, logprob, [...new TextEncoder().encode(text)]] as const, top: [[1, logprob, [97]]] as const });
    const { wasm, chat } = await setUp(t, { logprobs: true }, [
      { type: 'text', text: 'a', logprobs: [likely('a', -0.5)] }, { type: 'text', text: 'bc', logprobs: [likely('b', -1), likely('c', -2)] }, done(),
    ]);
    const options = { top_logprobs: 1 };
    const whole = await chat.invoke('Hi', options);
    let streamed: AIMessageChunk | undefined;
    for await (const chunk of await chat.stream('Hi', options)) streamed = streamed ? streamed.concat(chunk) : chunk;
    const told = (token: string, logprob: number) =>
      ({ token, logprob, bytes: [token.charCodeAt(0)], top_logprobs: [{ token: 'a', logprob, bytes: [97] }] });
    for (const answer of [whole, streamed!]) {
      assert.deepEqual(answer.response_metadata.logprobs, { content: [told('a', -0.5), told('b', -1), told('c', -2)], refusal: null });
    }
    assert.deepEqual([started(wasm).logprobs, started(wasm, 1).logprobs], [1, 1]);
    assert.equal('logprobs' in (await chat.invoke('Hi', { logprobs: false })).response_metadata, false);
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

const fake = async (params: Partial<ChatRlxParams> = {}, answer = 'Hello', template = '') => {
  const wasm = new FakeEngine();
  wasm.events = [...texts(answer), done()];
  wasm.templateText = template;
  return { wasm, chat: new ChatRlx({ engine: await PLACES[0]!.engine(wasm), ...params }) };
};

const CITY = z.object({ city: z.string() });

test('structured output is an answer of the schema, of any kind of schema', async (t) => {
  const asked = withHeld(t);
  const { chat } = await fake({}, '{"city":"Bern"}');
  const { city }: { city: string } = await chat.withStructuredOutput(CITY, { name: 'place' }).invoke('Hi');
  assert.equal(city, 'Bern');
  for (const work of [
    chat.withStructuredOutput(SCHEMA, { strict: true }), chat.withStructuredOutput({ ...SCHEMA, title: 'town' }, { method: 'jsonSchema' }),
    chat.withStructuredOutput(TOLD.function), chat.withStructuredOutput(SCHEMA, { method: 'jsonMode' }),
  ]) assert.deepEqual(await work.invoke('Hi'), { city: 'Bern' });
  const form = (name: string, schema: object, more = {}) => ({ response_format: { type: 'json_schema', json_schema: { name, schema, ...more } } });
  const [zod, ...others] = asked;
  assert.deepEqual(others, [
    form('extract', SCHEMA, { strict: true }), form('town', { ...SCHEMA, title: 'town' }), form('weather', SCHEMA), { response_format: { type: 'json_object' } },
  ]);
  const { name, schema } = zod!.response_format!.json_schema!;
  assert.deepEqual([name, schema!.type, schema!.properties, schema!.required], ['place', 'object', SCHEMA.properties, ['city']]);
});

test('structured output is beside the message, and null if it is of another form', async (t) => {
  withHeld(t);
  const { wasm, chat } = await fake({}, '{"city":"Bern"}');
  const both = chat.withStructuredOutput(CITY, { includeRaw: true });
  const { raw, parsed } = await both.invoke('Hi');
  assert.deepEqual([raw.content, parsed], ['{"city":"Bern"}', { city: 'Bern' }]);
  wasm.events = [...texts('{"city":'), done('length')];
  assert.equal((await both.invoke('Hi')).parsed, null);
  await assert.rejects(chat.withStructuredOutput(CITY).invoke('Hi'));
});

test('structured output is read from a call that is forced', async (t) => {
  const asked = withHeld(t);
  const { wasm, chat } = await fake({}, CALL.replace('weather', 'extract'), TEMPLATE);
  const method = 'functionCalling';
  assert.deepEqual(await chat.withStructuredOutput(SCHEMA, { method, strict: true }).invoke('Hi'), { city: 'Bern' });
  assert.deepEqual((await chat.withStructuredOutput(CITY, { method, includeRaw: true }).invoke('Hi')).parsed, { city: 'Bern' });
  assert.deepEqual(asked, Array(2).fill({ tool_choice: { type: 'function', function: { name: 'extract' } }, parallel_tool_calls: false }));
  const [tool] = (started(wasm).variables as { tools: { function: object }[] }).tools;
  assert.deepEqual(tool!.function, { name: 'extract', description: 'A function available to call.', parameters: SCHEMA, strict: true });
});

test('answers of the standard form, and one with a call that is no object, go back as they are', async () => {
  const { wasm, chat } = await fake({ outputVersion: 'v1' }, `Look. ${CALL}`, TEMPLATE);
  const answer = await chat.bindTools([weather]).invoke('Hi');
  const [call] = answer.tool_calls!;
  const standard = new AIMessage({ contentBlocks: [{ type: 'text', text: 'Look.' }, { type: 'tool_call', id: call!.id!, name: 'weather', args: { city: 'Bern' } }] });
  const odd = new AIMessage({ content: '', invalid_tool_calls: [{ id: '1', name: 'weather', args: '[1]', error: 'Malformed args.', type: 'invalid_tool_call' }] });
  await chat.invoke([new HumanMessage({ content: 'Hi', name: 'ann' }), answer, standard, odd]);
  const told = { role: 'assistant', content: 'Look.', tool_calls: [{ id: call!.id, type: 'function', function: { name: 'weather', arguments: { city: 'Bern' } } }] };
  assert.deepEqual(started(wasm, 1).messages, [
    { role: 'user', content: 'Hi', name: 'ann' }, told, told,
    { role: 'assistant', content: '', tool_calls: [{ id: '1', type: 'function', function: { name: 'weather', arguments: [1] } }] },
  ]);
});

test('what is not done is LangChain\'s error, before the engine is asked', async () => {
  const { wasm, chat } = await fake({}, 'Hello', TEMPLATE);
  for (const work of [
    () => chat.invoke('Hi', { n: 2 } as object),
    () => chat.invoke([new FunctionMessage({ content: '', name: 'f' })]),
    () => chat.invoke([new HumanMessage({ content: [{ type: 'image_url', image_url: { url: 'data:,' } }] })]),
    async () => {
      for await (const _ of await chat.withConfig({ functions: [] } as object).stream('Hi'));
    },
    async () => chat.withStructuredOutput(SCHEMA, { method: 'guess' }),
  ]) await assert.rejects(work, LangChainError.isInstance);
  await assert.rejects(chat.invoke('Hi', { tool_choice: 'any' }), { code: 'usage', at: 'tool_choice' });
  await assert.rejects(chat.bindTools([weather], { tool_choice: 'time' }).invoke('Hi'), { code: 'usage', at: 'tool_choice' });
  await assert.rejects(chat.bindTools([{ name: 'weather' }]).invoke('Hi'), { code: 'usage', at: 'tools[0]' });
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
