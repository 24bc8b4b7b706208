/** The adapter under the real `ai` package. */

import { UnsupportedFunctionalityError } from '@ai-sdk/provider';
import { customProvider, embedMany, generateText, streamText } from 'ai';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { embeddingModel, languageModel } from '../src/adapters/ai_sdk.js';
import type { Embedder } from '../src/embedder.js';
import type { EmbedCallOptions } from '../src/session_types.js';
import type { WasmEvent } from '../src/wasm.js';
import { FakeEngine } from './fakes.js';
import { PLACES } from './places.js';

const done = (reason: 'stop' | 'length' = 'stop'): WasmEvent => ({ type: 'done', reason, promptTokens: 5, completionTokens: 2 });
const texts = (...all: string[]): WasmEvent[] => all.map((text) => ({ type: 'text', text }));

for (const { name, engine: engineAt } of PLACES) {
  const setUp = async (t: TestContext, events: WasmEvent[] = [...texts('Hel', 'lo'), done()]) => {
    const wasm = new FakeEngine();
    wasm.events = events;
    const engine = await engineAt(wasm);
    t.after(() => engine.dispose());
    return { wasm, model: languageModel(engine) };
  };

  test(`${name}: generateText has the text, the reason, the usage and the model's name`, async (t) => {
    const { wasm, model } = await setUp(t);
    const result = await generateText({
      model, instructions: 'Be short.', prompt: 'Hi', temperature: 0, maxOutputTokens: 7, topK: 3, stopSequences: ['END'], seed: 4,
      providerOptions: { rlx: { min_p: 0.25 } },
    });
    assert.equal(result.text, 'Hello');
    assert.equal(result.finishReason, 'stop');
    assert.equal(result.rawFinishReason, 'stop');
    assert.deepEqual([result.usage.inputTokens, result.usage.outputTokens, result.usage.totalTokens], [5, 2, 7]);
    assert.equal(result.response.modelId, 'fake');
    assert.deepEqual(result.warnings, []);
    const { messages, temperature, max_tokens, top_k, stop, seed, min_p } = wasm.started[0] as Record<string, unknown>;
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
const fake = async () => {
  const wasm = new FakeEngine();
  wasm.events = [...texts('Hello'), done()];
  return { wasm, model: languageModel(await PLACES[0]!.engine(wasm)) };
};

test('the parts of a stream are in the order that the specification wants', async () => {
  const { model } = await fake();
  const { stream } = await model.doStream({ prompt: [hi], includeRawChunks: true });
  const kinds: string[] = [];
  for await (const { type } of stream) kinds.push(type);
  assert.deepEqual(kinds, ['stream-start', 'raw', 'response-metadata', 'text-start', 'text-delta', 'raw', 'text-end', 'finish']);
});

test('what tunes an answer and is not heeded is a warning', async () => {
  const { wasm, model } = await fake();
  const { warnings } = await model.doGenerate({
    prompt: [{ role: 'assistant', content: [{ type: 'reasoning', text: 'hm' }, { type: 'text', text: 'Yes?' }] }, hi], reasoning: 'high',
  });
  assert.deepEqual(warnings.map((warning) => 'feature' in warning && warning.feature), ['reasoning', 'reasoning parts']);
  assert.deepEqual((wasm.started[0] as { messages: unknown }).messages, [{ role: 'assistant', content: 'Yes?' }, { role: 'user', content: 'Hi' }]);
});

test('what would change an answer and is not done is the SDK\'s error', async () => {
  const { wasm, model } = await fake();
  const tool = { type: 'function' as const, name: 'f', inputSchema: { type: 'object' as const } };
  const result = { type: 'tool-result' as const, toolCallId: '1', toolName: 'f', output: { type: 'text' as const, value: '' } };
  const image = { type: 'file' as const, mediaType: 'image/png', data: { type: 'data' as const, data: new Uint8Array(1) } };
  for (const [functionality, options] of [
    ['tools', { prompt: [hi], tools: [tool] }],
    ['responseFormat', { prompt: [hi], responseFormat: { type: 'json' as const } }],
    ['file parts', { prompt: [{ role: 'user' as const, content: [image] }] }],
    ['tool messages', { prompt: [hi, { role: 'tool' as const, content: [result] }] }],
  ] as const) {
    await assert.rejects(async () => model.doGenerate(options as never), (error: unknown) =>
      UnsupportedFunctionalityError.isInstance(error) && error.functionality === functionality);
  }
  await assert.rejects(async () => generateText({ model, prompt: 'Hi', providerOptions: { rlx: { temprature: 1 } } }), { code: 'usage', at: 'temprature' });
  assert.equal(wasm.started.length, 0);
  await model.doGenerate({ prompt: [hi], tools: [tool], toolChoice: { type: 'none' } });
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
