/** The adapter under the real `ai` package. */

import { UnsupportedFunctionalityError } from '@ai-sdk/provider';
import { customProvider, embedMany, generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { embeddingModel, languageModel } from '../src/adapters/ai_sdk.js';
import type { Embedder } from '../src/embedder.js';
import type { EmbedCallOptions } from '../src/session_types.js';
import type { WasmEvent } from '../src/wasm.js';
import { FakeEngine, withHeld } from './fakes.js';
import { PLACES } from './places.js';

const done = (reason: 'stop' | 'length' = 'stop'): WasmEvent => ({ type: 'done', reason, promptTokens: 5, completionTokens: 2 });
const texts = (...all: string[]): WasmEvent[] => all.map((text) => ({ type: 'text', text }));


/** What a template that knows tools and thoughts has; its calls and thoughts are between marks. */
const TEMPLATE = '{{ tools }} tool_calls reasoning_content <tool_call> </tool_call> <think></think>';
const ARGUMENTS = '{"city":"Bern"}';
const CALL = `<tool_call>{"name": "weather", "arguments": ${ARGUMENTS}}</tool_call>`;
const SCHEMA = { type: 'object' as const, properties: { city: { type: 'string' as const } }, required: ['city'] };
const WEATHER = { type: 'function' as const, name: 'weather', description: 'Tells the weather.', inputSchema: SCHEMA };
/** What the template is told of it. */
const TOLD = { type: 'function', function: { name: 'weather', description: 'Tells the weather.', parameters: SCHEMA } };

interface Told {
  role: string;
  content: string;
  tool_calls?: { id: string }[];
  tool_call_id?: string;
}
const told = (wasm: FakeEngine, i = 0) => (wasm.started[i] as { messages: Told[] }).messages;

for (const { name, engine: engineAt } of PLACES) {
  const setUp = async (t: TestContext, events: WasmEvent[] = [...texts('Hel', 'lo'), done()], template = '') => {
    const wasm = new FakeEngine();
    wasm.events = events;
    wasm.templateText = template;
    const engine = await engineAt(wasm);
    t.after(() => engine.dispose());
    return { wasm, model: languageModel(engine) };
  };

  test(`${name}: generateText has the text, the reason, the usage and the model's name`, async (t) => {
    const { wasm, model } = await setUp(t);
    const result = await generateText({
      model, instructions: 'Be short.', prompt: 'Hi', temperature: 0, maxOutputTokens: 7, topK: 3, stopSequences: ['END'], seed: 4,
      providerOptions: { rlx: { min_p: 0.25, overflow: 'slide' } },
    });
    assert.equal(result.text, 'Hello');
    assert.equal(result.finishReason, 'stop');
    assert.equal(result.rawFinishReason, 'stop');
    assert.deepEqual([result.usage.inputTokens, result.usage.outputTokens, result.usage.totalTokens], [5, 2, 7]);
    assert.equal(result.response.modelId, 'fake');
    assert.deepEqual(result.warnings, []);
    const { messages, temperature, max_tokens, top_k, stop, seed, min_p, slide_ids } = wasm.started[0] as Record<string, unknown>;
    assert.ok(Array.isArray(slide_ids), 'the answer goes on where the context is full');
    assert.deepEqual(messages, [{ role: 'system', content: 'Be short.' }, { role: 'user', content: 'Hi' }]);
    assert.deepEqual({ temperature, max_tokens, top_k, stop, seed, min_p }, { temperature: 0, max_tokens: 7, top_k: 3, stop: ['END'], seed: 4, min_p: 0.25 });
  });

  test(`${name}: streamText has texts as they come, and the reason last`, async (t) => {
    const { model } = await setUp(t, [...texts('a', 'b', 'c'), done('length')]);
    const result = streamText({ model, messages: [{ role: 'user', content: [{ type: 'text', text: 'one ' }, { type: 'text', text: 'two' }] }] });
    const seen: string[] = [];
    for await (const text of result.textStream) seen.push(text);
    assert.deepEqual(seen, ['a', 'b', 'c']);
    assert.equal(await result.finishReason, 'length');
    assert.equal((await result.usage).outputTokens, 2);
    assert.equal((await result.response).modelId, 'fake');
  });

  /** A model that thinks and calls a tool first, and answers when the result is there. */
  const withTools = async (t: TestContext) => {
    const { wasm, model } = await setUp(t, [], TEMPLATE);
    const start = wasm.start.bind(wasm);
    wasm.start = (request) => {
      const answers = (JSON.parse(request) as { messages: Told[] }).messages.at(-1)!.role === 'tool';
      wasm.events = answers ? [...texts('It is', ' sunny.'), done()] : [...texts('<think>I must', ' look.</think>', CALL), done()];
      return start(request);
    };
    const asked: unknown[] = [];
    const weather = tool({
      description: WEATHER.description,
      inputSchema: jsonSchema<{ city: string }>(SCHEMA),
      execute: async (input) => {
        asked.push(input);
        return { sky: 'clear' };
      },
    });
    return { wasm, asked, call: { model, prompt: 'Hi', tools: { weather }, stopWhen: isStepCount(3) } };
  };
  /** What the second call was told: the first answer, as it was, and the tool's. */
  const checkTold = (wasm: FakeEngine) => {
    assert.deepEqual((wasm.started[0] as { variables: unknown }).variables, { tools: [TOLD] });
    const [, answer, result] = told(wasm, 1);
    const id = answer!.tool_calls![0]!.id;
    assert.deepEqual([answer, result], [
      { role: 'assistant', content: '', reasoning_content: 'I must look.', tool_calls: [{ id, type: 'function', function: { name: 'weather', arguments: { city: 'Bern' } } }] },
      { role: 'tool', tool_call_id: id, name: 'weather', content: '{"sky":"clear"}' },
    ]);
  };

  test(`${name}: generateText thinks, runs tools and goes on with their results`, async (t) => {
    const { wasm, asked, call } = await withTools(t);
    const { text, steps, finishReason } = await generateText(call);
    assert.deepEqual([text, finishReason, asked], ['It is sunny.', 'stop', [{ city: 'Bern' }]]);
    assert.deepEqual([steps[0]!.reasoningText, steps[0]!.finishReason, steps[0]!.text], ['I must look.', 'tool-calls', '']);
    checkTold(wasm);
    wasm.started = [];
    await generateText({ ...call, toolChoice: 'none', stopWhen: isStepCount(1) });
    assert.deepEqual((wasm.started[0] as { variables: unknown }).variables, {});
  });

  test(`${name}: streamText thinks, runs tools and goes on with their results`, async (t) => {
    const { wasm, asked, call } = await withTools(t);
    const result = streamText(call);
    const seen: string[] = [];
    for await (const text of result.textStream) seen.push(text);
    const steps = await result.steps;
    assert.deepEqual([seen, asked], [['It is', ' sunny.'], [{ city: 'Bern' }]]);
    assert.deepEqual([steps[0]!.reasoningText, steps[0]!.finishReason], ['I must look.', 'tool-calls']);
    checkTold(wasm);
  });

  test(`${name}: an output is asked for as a form, and read`, async (t) => {
    const asked = withHeld(t);
    const { wasm, model } = await setUp(t, [...texts('{"city":', '"Bern"}'), done()]);
    const ask = { model, prompt: 'Hi' };
    const { output } = await generateText({ ...ask, output: Output.object({ schema: jsonSchema(SCHEMA), name: 'place' }) });
    const streamed = await streamText({ ...ask, output: Output.object({ schema: jsonSchema(SCHEMA) }) }).output;
    const any = await generateText({ ...ask, output: Output.json() });
    await generateText(ask);
    assert.deepEqual([output, streamed, any.output], Array(3).fill({ city: 'Bern' }));
    const form = (name: string) => ({ response_format: { type: 'json_schema', json_schema: { name, schema: SCHEMA } } });
    // The SDK says `auto` without tools too.
    assert.deepEqual(asked, [form('place'), form('answer'), { response_format: { type: 'json_object' } }].map((form) => ({ ...form, tool_choice: 'auto' })));
    assert.deepEqual(wasm.constrained, [true, true, true, false]);
  });

  test(`${name}: a call is forced, and strict`, async (t) => {
    const asked = withHeld(t);
    const { wasm, model } = await setUp(t, [...texts(CALL), done()], TEMPLATE);
    const described = { description: WEATHER.description, inputSchema: jsonSchema<{ city: string }>(SCHEMA), execute: async () => '' };
    const weather = tool(described);
    const ask = { model, prompt: 'Hi', tools: { weather } };
    await generateText({ ...ask, toolChoice: 'required' });
    await generateText({ ...ask, toolChoice: { type: 'tool', toolName: 'weather' }, providerOptions: { rlx: { parallel_tool_calls: false } } });
    await generateText({ ...ask, toolChoice: 'auto', tools: { weather: tool({ ...described, strict: true }) } });
    await generateText({ ...ask, toolChoice: 'auto' });
    assert.deepEqual(asked, [
      { tool_choice: 'required' },
      { tool_choice: { type: 'function', function: { name: 'weather' } }, parallel_tool_calls: false },
      { tool_choice: 'auto' },
    ]);
    assert.deepEqual(wasm.constrained, [true, true, true, false]);
    const { tools } = (wasm.started[2] as { variables: { tools: unknown } }).variables;
    assert.deepEqual(tools, [{ ...TOLD, function: { ...TOLD.function, strict: true } }]);
  });

  test(`${name}: an aborted stream ends as aborted, and the engine goes on`, async (t) => {
    const { wasm, model } = await setUp(t, [...texts('a', 'b', 'c'), done()]);
    const abort = new AbortController();
    wasm.before = (n) => {
      if (n === 2) abort.abort();
    };
    const kinds: string[] = [];
    for await (const part of streamText({ model, prompt: 'Hi', abortSignal: abort.signal }).stream) kinds.push(part.type);
    assert.ok(kinds.includes('abort'), kinds.join());
    wasm.before = () => {};
    assert.equal((await generateText({ model, prompt: 'Hi' })).text, 'abc');
    assert.ok(wasm.log.includes('cancel'));
  });

  test(`${name}: leaving a stream stops the answer`, async (t) => {
    const { wasm, model } = await setUp(t, [...texts('a', 'b', 'c'), done()]);
    const { stream } = await model.doStream({ prompt: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }] });
    const reader = stream.getReader();
    for (let i = 0; i < 4; i++) await reader.read();
    await reader.cancel();
    const { content } = await model.doGenerate({ prompt: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }] });
    assert.deepEqual(content, [{ type: 'text', text: 'abc' }]);
    assert.ok(wasm.log.includes('cancel'));
  });

  test(`${name}: an error of the engine reaches the caller as it is`, async (t) => {
    const { wasm, model } = await setUp(t);
    await assert.rejects(async () => generateText({ model, prompt: 'Hi', temperature: 5 }), { name: 'RlxError', code: 'usage', at: 'temperature' });
    wasm.before = (n) => {
      if (n === 1) throw new Error('gone');
    };
    const errors: unknown[] = [];
    const result = streamText({ model, prompt: 'Hi', onError: ({ error }) => void errors.push(error) });
    await result.consumeStream();
    assert.equal((errors[0] as { code: string }).code, 'internal');
  });
}

const hi = { role: 'user' as const, content: [{ type: 'text' as const, text: 'Hi' }] };
const fake = async (answer = ['Hello'], template = '') => {
  const wasm = new FakeEngine();
  wasm.events = [...texts(...answer), done()];
  wasm.templateText = template;
  return { wasm, model: languageModel(await PLACES[0]!.engine(wasm)) };
};

test('the parts of a stream are in the order that the specification wants', async () => {
  const { model } = await fake();
  const { stream } = await model.doStream({ prompt: [hi], includeRawChunks: true });
  const kinds: string[] = [];
  for await (const { type } of stream) kinds.push(type);
  assert.deepEqual(kinds, ['stream-start', 'raw', 'response-metadata', 'text-start', 'text-delta', 'raw', 'text-end', 'finish']);
});

test('the parts of an answer with thoughts, text and calls are blocks in its order', async () => {
  const { wasm, model } = await fake(['<think>hm', 'm</think>', 'Let me', ' look.', CALL, CALL], TEMPLATE);
  const { stream } = await model.doStream({ prompt: [hi], tools: [WEATHER] });
  const seen: unknown[][] = [];
  for await (const part of stream) {
    if (part.type !== 'stream-start' && part.type !== 'response-metadata') seen.push([part.type, 'id' in part && part.id, ...('delta' in part ? [part.delta] : [])]);
  }
  const calls = (seen.filter(([type]) => type === 'tool-input-start')).map(([, id]) => id);
  assert.equal(new Set(calls).size, 2);
  const call = (id: unknown) => [['tool-input-start', id], ['tool-input-delta', id, ARGUMENTS], ['tool-input-end', id], ['tool-call', false]];
  assert.deepEqual(seen, [
    ['reasoning-start', '0'], ['reasoning-delta', '0', 'hm'], ['reasoning-delta', '0', 'm'], ['reasoning-end', '0'],
    ['text-start', '1'], ['text-delta', '1', 'Let me'], ['text-delta', '1', ' look.'], ['text-end', '1'],
    ...call(calls[0]), ...call(calls[1]), ['finish', false],
  ]);
  assert.equal(wasm.started.length, 1);
});

test('what tunes an answer and is not heeded is a warning', async () => {
  const { model } = await fake(['Hello'], TEMPLATE);
  const { warnings } = await model.doGenerate({ prompt: [hi], tools: [{ ...WEATHER, inputExamples: [{ input: { city: 'Bern' } }] }] });
  assert.deepEqual(warnings, [{ type: 'unsupported', feature: 'inputExamples', details: 'the model is not told the examples of weather' }]);
});

test('results of every kind are told as text', async () => {
  const { wasm, model } = await fake(['Hello'], TEMPLATE);
  const outputs = [
    { type: 'text', value: 'a' }, { type: 'json', value: { b: 1 } }, { type: 'error-text', value: 'c' }, { type: 'error-json', value: ['d'] },
    { type: 'execution-denied' }, { type: 'execution-denied', reason: 'no' }, { type: 'content', value: [{ type: 'text', text: 'e' }, { type: 'text', text: 'f' }] },
  ] as const;
  const content = outputs.map((output, i) => ({ type: 'tool-result' as const, toolCallId: String(i), toolName: 'weather', output }));
  await model.doGenerate({ prompt: [hi, { role: 'tool', content }] } as never);
  assert.deepEqual(told(wasm).slice(1).map((message) => message.content), ['a', '{"b":1}', 'c', '["d"]', 'The call was denied.', 'no', 'ef']);
});

test('effort goes to templates that take it, and none turns thoughts off', async () => {
  for (const [variable, reasoning, want] of [
    ['enable_thinking', 'none', { enable_thinking: false }], ['enable_thinking', 'high', {}], ['reasoning_effort', 'high', { reasoning_effort: 'high' }],
    ['reasoning_effort', 'provider-default', {}],
  ] as const) {
    const { wasm, model } = await fake(['Hello'], `${TEMPLATE} ${variable}`);
    await generateText({ model, prompt: 'Hi', reasoning });
    assert.deepEqual((wasm.started[0] as { variables: unknown }).variables, want);
  }
});

test('what would change an answer and is not done is the SDK\'s error', async () => {
  const { wasm, model } = await fake(['Hello'], TEMPLATE);
  const image = { type: 'file' as const, mediaType: 'image/png', data: { type: 'data' as const, data: new Uint8Array(1) } };
  const call = { type: 'tool-call' as const, toolCallId: '1', toolName: 'f', input: {}, providerExecuted: true };
  const result = { type: 'tool-result' as const, toolCallId: '1', toolName: 'f', output: { type: 'content' as const, value: [image] } };
  const approval = { type: 'tool-approval-response' as const, approvalId: '1', approved: true };
  for (const [functionality, options] of [
    ['tool rlx.search', { prompt: [hi], tools: [{ type: 'provider', id: 'rlx.search', name: 'search', args: {} }] }],
    ['file parts', { prompt: [{ role: 'user', content: [image] }] }],
    ['file parts', { prompt: [{ role: 'assistant', content: [image] }] }],
    ['tool-call parts', { prompt: [{ role: 'assistant', content: [call] }] }],
    ['file parts', { prompt: [hi, { role: 'tool', content: [result] }] }],
    ['tool-approval-response parts', { prompt: [hi, { role: 'tool', content: [approval] }] }],
    ['providerOptions.rlx.response_format', { prompt: [hi], providerOptions: { rlx: { response_format: { type: 'text' } } } }],
    ['providerOptions.rlx.n', { prompt: [hi], providerOptions: { rlx: { n: 2 } } }],
  ] as const) {
    await assert.rejects(async () => model.doGenerate(options as never), (error: unknown) =>
      UnsupportedFunctionalityError.isInstance(error) && error.functionality === functionality, functionality);
  }
  await assert.rejects(async () => generateText({ model, prompt: 'Hi', providerOptions: { rlx: { temprature: 1 } } }), { code: 'usage', at: 'temprature' });
  const missing = { prompt: [hi], tools: [WEATHER], toolChoice: { type: 'tool' as const, toolName: 'time' } };
  await assert.rejects(async () => model.doGenerate(missing), { code: 'usage', at: 'tool_choice' });
  assert.equal(wasm.started.length, 0);
});

/** Vectors of a text's length, of texts of at most 3 characters. */
const embedder = {
  width: 2,
  maxTokens: 3,
  async embed(all: readonly string[], { onProgress, signal }: EmbedCallOptions = {}) {
    signal?.throwIfAborted();
    onProgress?.({ done: all.length, total: all.length, truncated: all.filter(({ length }) => length > 3).length });
    return all.map(({ length }) => Float32Array.of(length, 0.5));
  },
} as Embedder;

test('embedMany has the embedder\'s vectors, and a warning of texts that were cut', async () => {
  const rlx = customProvider({ embeddingModels: { small: embeddingModel(embedder, 'small') } });
  const { embeddings, warnings } = await embedMany({ model: rlx.embeddingModel('small'), values: ['a', 'four'] });
  assert.deepEqual(embeddings, [[1, 0.5], [4, 0.5]]);
  assert.deepEqual(warnings, [{ type: 'other', message: '1 of 2 texts were cut, for they have more than 3 tokens' }]);
  await assert.rejects(async () => embeddingModel(embedder).doEmbed({ values: ['a'], dimensions: 1 }), UnsupportedFunctionalityError.isInstance);
});
