/** The official client's types and ours, and that client over an engine. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { RlxError } from '../src/error.js';
import type { Embedder, Engine, ChatCompletion, ChatCompletionChunk, ChatRequest, Completions, EmbeddingList, TextChunk, TextCompletion, TextCompletions } from '../src/index.js';
import { completions } from '../src/openai/chat.js';
import { embeddings } from '../src/openai/embeddings.js';
import { handle } from '../src/openai/serve.js';
import type { Served } from '../src/openai/serve.js';
import { textCompletions } from '../src/openai/text.js';
import { platform } from '../src/platform.js';
import { Queue } from '../src/queue.js';
import type { WasmEvent } from '../src/wasm.js';
import { FakeEngine } from './fakes.js';

/** Types as facts: this need only compile. What we answer is what the client's code expects. */
export const answers = [
  (ours: ChatCompletion): OpenAI.ChatCompletion => ours,
  (ours: ChatCompletionChunk): OpenAI.ChatCompletionChunk => ours,
  (ours: TextCompletion): OpenAI.Completion => ours,
  (ours: EmbeddingList): OpenAI.CreateEmbeddingResponse => ours,
  // An answer's message goes back into a conversation, of either kind.
  ({ choices }: ChatCompletion): OpenAI.ChatCompletionMessageParam => choices[0]!.message,
  ({ choices }: OpenAI.ChatCompletion): ChatRequest => ({ messages: [choices[0]!.message] }),
];

/** Code that was written for the client, with its types, for an engine in its place. */
export async function code(client: { chat: { completions: Completions }; completions: TextCompletions }): Promise<void> {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'developer', content: 'Be brief.' }, { role: 'user', content: [{ type: 'text', text: 'hi' }] }];
  const tools: OpenAI.ChatCompletionTool[] = [{ type: 'function', function: { name: 'now', parameters: {} } }];
  const params: OpenAI.ChatCompletionCreateParamsNonStreaming = { model: 'x', messages, tools, tool_choice: 'auto', temperature: null, stop: null };
  const { choices } = await client.chat.completions.create(params);
  messages.push(choices[0]!.message);
  const streaming: OpenAI.ChatCompletionCreateParamsStreaming = { model: 'x', messages, stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await client.chat.completions.create(streaming, { signal: new AbortController().signal })) {
    chunk satisfies OpenAI.ChatCompletionChunk;
  }
  const text: OpenAI.CompletionCreateParamsNonStreaming = { model: 'x', prompt: ['a'], echo: true };
  (await client.completions.create(text)) satisfies OpenAI.Completion;
  for await (const chunk of await client.completions.create({ prompt: 'a', stream: true })) chunk satisfies TextChunk;
}

export const serves = (engine: Engine, embedder: Embedder): Served => ({ engine, embedder });

const text = (...texts: string[]): WasmEvent[] => texts.map((text) => ({ type: 'text', text }));
const DONE: WasmEvent = { type: 'done', reason: 'stop', promptTokens: 5, completionTokens: 3 };

function setUp(events: WasmEvent[], template = '') {
  const engine = new FakeEngine();
  engine.events = events;
  const cx = { engine: Object.assign(engine, { template: () => template }), queue: new Queue(), platform, modelName: 'fake' };
  const served: Served = {
    engine: { chat: { completions: completions(cx) }, completions: textCompletions(cx), info: () => ({ model: { name: 'fake' } }) },
    embedder: {
      embeddings: embeddings({ width: 2, modelName: () => 'bert', embed: async (texts) => ({ vectors: texts.map((t) => Float32Array.of(t.length, 0.5)), tokens: 7 }) }),
      info: () => ({ model: { family: 'bert' } }),
    },
  };
  const client = new OpenAI({ apiKey: '-', baseURL: 'http://rlx/v1', maxRetries: 0, fetch: (...request) => handle(new Request(...request), served) });
  return { engine, served, client };
}

const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'hi' }];

test('the client reads whole answers', async () => {
  const { client } = setUp([...text('Hel', 'lo'), DONE]);
  const answer = await client.chat.completions.create({ model: 'fake', messages, n: 2 });
  assert.deepEqual(answer.choices.map(({ message }) => message.content), ['Hello', 'Hello']);
  assert.deepEqual(answer.usage, { prompt_tokens: 5, completion_tokens: 6, total_tokens: 11 });
  const completion = await client.completions.create({ model: 'fake', prompt: 'hi', echo: true });
  assert.equal(completion.choices[0]!.text, 'hiHello');
});

test('the client reads streams, with usage in a chunk of its own', async () => {
  const { client } = setUp([...text('Hel', 'lo'), DONE]);
  const chunks = [];
  for await (const chunk of await client.chat.completions.create({ model: 'fake', messages, stream: true, stream_options: { include_usage: true } })) {
    chunks.push(chunk);
  }
  assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join(''), 'Hello');
  assert.deepEqual([chunks.at(-1)!.choices, chunks.at(-1)!.usage?.total_tokens], [[], 8]);
});

test("the client's helper puts a stream's calls together", async () => {
  const call = '<tool_call>{"name": "now", "arguments": {"zone": "CET"}}</tool_call>';
  const { client, engine } = setUp([...text('<think>hm', '</think>', 'Let me look. ', call.slice(0, 20), call.slice(20), call), DONE], '{{ tools }}{{ message.tool_calls }}<tool_call></think>');
  const tools: OpenAI.ChatCompletionTool[] = [{ type: 'function', function: { name: 'now', parameters: { type: 'object' } } }];
  const message = await client.chat.completions.stream({ model: 'fake', messages, tools }).finalMessage();
  const [first, second] = message.tool_calls!;
  assert.equal(message.content, 'Let me look.');
  assert.ok(first?.type === 'function');
  assert.deepEqual([first.function.name, first.function.arguments], ['now', '{"zone":"CET"}']);
  assert.notEqual(first.id, second!.id);
  assert.match(first.id, /^[A-Za-z0-9]{9}$/);
  const whole = await client.chat.completions.create({ model: 'fake', messages, tools });
  assert.equal(whole.choices[0]!.finish_reason, 'tool_calls');
  assert.equal((whole.choices[0]!.message as { reasoning_content?: string }).reasoning_content, 'hm');
  const answered: OpenAI.ChatCompletionMessageParam[] = [...messages, whole.choices[0]!.message, { role: 'tool', tool_call_id: first.id, content: 'noon' }];
  await client.chat.completions.create({ model: 'fake', messages: answered, tools });
  const told = (engine.started.at(-1) as { messages: { tool_calls?: { function: { arguments: unknown } }[] }[] }).messages[1]!;
  assert.deepEqual(told.tool_calls!.map((call) => call.function.arguments), [{ zone: 'CET' }, { zone: 'CET' }]);
});

test('the client reads vectors and names of models', async () => {
  const { client } = setUp([]);
  const list = await client.embeddings.create({ model: 'bert', input: ['a', 'abc'] });
  assert.deepEqual(list.data.map(({ embedding }) => [...embedding]), [[1, 0.5], [3, 0.5]]);
  assert.deepEqual(list.usage, { prompt_tokens: 7, total_tokens: 7 });
  assert.deepEqual((await client.embeddings.create({ model: 'bert', input: 'ab', encoding_format: 'float' })).data[0]!.embedding, [2, 0.5]);
  await assert.rejects(client.embeddings.create({ model: 'bert', input: 'ab', dimensions: 1 }), { status: 400, param: 'dimensions' });
  await assert.rejects(client.embeddings.create({ model: 'bert', input: [[1, 2]] }), { status: 400, param: 'input' });
  const names = [];
  for await (const { id } of client.models.list()) names.push(id);
  assert.deepEqual(names, ['fake', 'bert']);
  assert.equal((await client.models.retrieve('fake')).owned_by, 'rlx');
});

test("errors are the client's own", async () => {
  const { client, engine, served } = setUp([...text('one '), DONE]);
  await assert.rejects(client.chat.completions.create({ model: 'fake', messages, store: true }), (error) =>
    error instanceof OpenAI.BadRequestError && error.param === 'store' && /store is not done by RLX/.test(error.message));
  await assert.rejects(client.models.retrieve('a%zz/b'), OpenAI.NotFoundError);
  await assert.rejects(client.images.generate({ prompt: 'a' }), OpenAI.NotFoundError);
  engine.before = (n) => {
    if (n === 1) throw '{"code":"device_lost","what":"the GPU went away","at":"","hint":""}';
  };
  await assert.rejects(client.chat.completions.create({ model: 'fake', messages }), { status: 503, code: 'device_lost' });
  await assert.rejects(async () => {
    for await (const _ of await client.chat.completions.create({ model: 'fake', messages, stream: true }));
  }, /the GPU went away/);
  const post = (body: string, path = 'chat/completions') => handle(new Request(`http://rlx/v1/${path}`, { method: 'POST', body }), served);
  for (const body of ['{', '[]', '3']) assert.equal((await post(body)).status, 400);
  assert.equal((await post('{}', 'constructor')).status, 404);
  assert.equal((await handle(new Request('http://rlx/v1/embeddings', { method: 'POST', body: '{"input": "a"}' }), {})).status, 404);
});

test('an engine that still loads is waited for, and one that does not load is an error of the client\'s', async () => {
  const { served } = setUp([...text('a'), DONE]);
  const get = (served: Served | Promise<Served>) => handle(new Request('http://rlx/v1/models'), served);
  assert.equal((await get(Promise.resolve(served))).status, 200);
  const failed = await get(Promise.reject(new RlxError('device_unavailable', 'no GPU')));
  assert.equal(failed.status, 503);
  assert.equal((await failed.json() as { error: { message: string } }).error.message, 'no GPU');
});

test('a client that stops stops the answer', async () => {
  const { client, engine } = setUp([...text(...'abcdefghij'), DONE]);
  for await (const _ of await client.chat.completions.create({ model: 'fake', messages, stream: true })) break;
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(engine.log.includes('cancel'));
  const abort = new AbortController();
  engine.before = (n) => {
    if (n === 2) abort.abort();
  };
  await assert.rejects(client.chat.completions.create({ model: 'fake', messages }, { signal: abort.signal }), OpenAI.APIUserAbortError);
});
