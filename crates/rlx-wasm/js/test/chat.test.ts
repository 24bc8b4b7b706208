import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completions } from '../src/openai/chat.js';
import { chatRequest } from '../src/openai/chat_request.js';
import type { ChatCompletionChunk, ChatRequest } from '../src/openai/types.js';
import { platform } from '../src/platform.js';
import { Queue } from '../src/queue.js';
import type { WasmEvent, WasmLogprob } from '../src/wasm.js';
import { FakeEngine } from './fakes.js';

const messages = [{ role: 'user', content: 'hi' }] as const;
const text = (...texts: string[]): WasmEvent[] => texts.map((text) => ({ type: 'text', text }));
const done = (reason: 'stop' | 'length' = 'stop'): WasmEvent => ({ type: 'done', reason, promptTokens: 5, completionTokens: 3 });

function setUp(events: WasmEvent[] = [...text('Hel', 'lo'), done()]) {
  const engine = new FakeEngine();
  engine.events = events;
  const queue = new Queue();
  return { engine, queue, api: completions({ engine, queue, platform, modelName: 'fake' }) };
}

async function collect(chunks: AsyncIterable<ChatCompletionChunk>): Promise<ChatCompletionChunk[]> {
  const all = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}

test('a stream has the role first, texts, and reason and usage last', async () => {
  const { api } = setUp();
  const chunks = await collect(await api.create({ messages, stream: true }));
  assert.deepEqual(chunks.map(({ choices }) => choices[0]!.delta), [{ role: 'assistant', content: 'Hel' }, { content: 'lo' }, {}]);
  assert.deepEqual(chunks.map(({ choices }) => choices[0]!.finish_reason), [null, null, 'stop']);
  assert.deepEqual(chunks.map(({ usage }) => usage), [undefined, undefined, { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 }]);
  assert.equal(new Set(chunks.map(({ id }) => id)).size, 1);
  assert.ok(chunks.every(({ object, model }) => object === 'chat.completion.chunk' && model === 'fake'));
});

test('without stream the answer comes whole, with length when the limit was reached', async () => {
  const { api } = setUp([...text('a', 'b'), done('length')]);
  const answer = await api.create({ messages });
  assert.deepEqual(answer.choices, [
    { index: 0, message: { role: 'assistant', content: 'ab', refusal: null }, logprobs: null, finish_reason: 'length' },
  ]);
  assert.equal(answer.object, 'chat.completion');
});

test('the first chunk reaches the reader before generation ends', async () => {
  const { engine, api } = setUp([...text('a', 'b', 'c', 'd'), done()]);
  let finished = false;
  engine.before = (n) => {
    finished = n === 4;
  };
  const chunks = await api.create({ messages, stream: true });
  await chunks.next();
  assert.equal(finished, false);
  await collect(chunks);
});

test('a second call waits for the first and then runs', async () => {
  const { engine, api } = setUp();
  const first = await api.create({ messages, stream: true });
  const second = api.create({ messages: [{ role: 'user', content: 'two' }] });
  assert.equal(engine.started.length, 1);
  await collect(first);
  assert.equal((await second).choices[0]!.message.content, 'Hello');
  assert.equal(engine.started.length, 2);
});

test('a stream that nobody reads does not hold up the next call', async () => {
  const { api } = setUp();
  await api.create({ messages, stream: true });
  assert.equal((await api.create({ messages })).choices[0]!.message.content, 'Hello');
});

test('a signal stops a running answer, keeps its text, and the next call works', async () => {
  const { engine, api } = setUp([...text('one ', 'two ', 'three'), done()]);
  const abort = new AbortController();
  engine.before = (n) => {
    if (n === 2) abort.abort();
  };
  const seen: string[] = [];
  await assert.rejects(async () => {
    for await (const chunk of await api.create({ messages, stream: true, signal: abort.signal })) {
      seen.push(chunk.choices[0]!.delta.content ?? '');
    }
  }, { code: 'cancelled', name: 'AbortError', text: 'one two ' });
  assert.deepEqual(seen, ['one ', 'two ']);
  engine.before = () => {};
  assert.equal((await api.create({ messages })).choices[0]!.message.content, 'one two three');
});

test('a signal takes a waiting call out of the queue, and it never starts', async () => {
  const { engine, api } = setUp();
  const abort = new AbortController();
  const first = api.create({ messages });
  const second = api.create({ messages, signal: abort.signal });
  abort.abort();
  await assert.rejects(second, { code: 'cancelled', what: 'the call was cancelled while it waited' });
  await first;
  assert.equal(engine.started.length, 1);
});

test('a signal ends a call at once, though the engine is in the middle of a step, and the next call waits for it', async () => {
  const { engine, api } = setUp([...text('one ', 'two '), done()]);
  const abort = new AbortController();
  let step = () => {};
  engine.before = (n) => (n === 1 ? new Promise<void>((resolve) => { step = resolve; }) : undefined);
  const call = api.create({ messages, signal: abort.signal });
  await new Promise((resolve) => setTimeout(resolve, 20));
  abort.abort();
  await assert.rejects(call, { code: 'cancelled', text: 'one ' });
  const next = api.create({ messages });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(engine.started.length, 1);
  engine.before = () => {};
  step();
  assert.equal((await next).choices[0]!.message.content, 'one two ');
});

test('leaving the loop stops the answer before the next call starts', async () => {
  const { engine, api } = setUp([...text('a', 'b', 'c'), done()]);
  for await (const _ of await api.create({ messages, stream: true })) break;
  assert.ok(engine.log.includes('cancel'));
  assert.equal((await api.create({ messages })).choices[0]!.message.content, 'abc');
});

test('leaving resolves when the engine has come to rest, and not before', async () => {
  const { engine, api } = setUp([...text('a', 'b', 'c'), done()]);
  let rests = false;
  engine.before = async (n) => {
    if (n === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
    rests = true;
  };
  const chunks = await api.create({ messages, stream: true });
  await chunks.next();
  await chunks.return!();
  assert.equal(rests, true);
});

test('what Rust throws from start ends the call and frees the queue', async () => {
  const { engine, api } = setUp();
  const start = engine.start.bind(engine);
  engine.start = () => {
    throw '{"code":"context_full","what":"the prompt has 2000 tokens, the context 1024","at":"","hint":"shorten it"}';
  };
  await assert.rejects(api.create({ messages }), { code: 'context_full', message: 'the prompt has 2000 tokens, the context 1024; shorten it' });
  engine.start = start;
  await api.create({ messages });
});

test('a fault on the way ends the call with the text so far, and frees the queue', async () => {
  const { engine, api } = setUp([...text('one ', 'two '), done()]);
  engine.before = (n) => {
    if (n === 2) throw '{"code":"device_lost","what":"the GPU went away","at":"","hint":""}';
  };
  await assert.rejects(api.create({ messages }), { code: 'device_lost', text: 'one two ' });
  engine.before = () => {};
  assert.equal((await api.create({ messages })).choices[0]!.message.content, 'one two ');
});

test('a signal that fires while the prompt is prepared stops the answer', async () => {
  const { engine, api } = setUp();
  const abort = new AbortController();
  const start = engine.start.bind(engine);
  engine.start = (request) => {
    abort.abort();
    return start(request);
  };
  await assert.rejects(api.create({ messages, signal: abort.signal }), { code: 'cancelled' });
});

test('a signal that fires after the answer stops nothing of the next one', async () => {
  const { engine, api } = setUp();
  const abort = new AbortController();
  await api.create({ messages, signal: abort.signal });
  engine.log = [];
  abort.abort();
  assert.deepEqual(engine.log, []);
});

test('the page has its turn whenever the answer has had the thread for 4 ms, and not more often', async () => {
  const engine = new FakeEngine();
  engine.events = [...text(...'abcdefghijkl'), done()];
  let now = 0;
  const turns: number[] = [];
  engine.before = (n) => {
    now += n < 6 ? 1 : 3;
  };
  const counting = { now: () => now, yieldToPage: async () => void turns.push(now) };
  const api = completions({ engine, queue: new Queue(), platform: counting, modelName: 'fake' });
  await api.create({ messages });
  assert.deepEqual(turns, [5, 12, 18, 24]);
});

test('a stream that has ended stays ended', async () => {
  const { api } = setUp();
  const chunks = await api.create({ messages, stream: true });
  await collect(chunks);
  assert.deepEqual(await chunks.next(), { value: undefined, done: true });
  const left = await api.create({ messages, stream: true });
  await left.next();
  await left.return!();
  assert.deepEqual(await left.next(), { value: undefined, done: true });
});

const checkRequest = (request: ChatRequest) => chatRequest(request, () => '').wasm;

test('the limits themselves are within the range', () => {
  const limits = [
    { temperature: 0 }, { temperature: 2 }, { top_p: 1 }, { top_k: 0 }, { min_p: 0 }, { min_p: 1 }, { repetition_penalty: 2 },
    { frequency_penalty: -2 }, { presence_penalty: 2 }, { max_tokens: 1 }, { seed: 0 }, { seed: Number.MAX_SAFE_INTEGER },
    { steps: 1 }, { threshold: 0 }, { editing_threshold: 1 }, { max_post_steps: 0 },
    { stop: Array.from({ length: 16 }, (_, i) => `stop ${i}`) },
  ];
  for (const limit of limits) {
    const checked = checkRequest({ messages, ...limit });
    for (const [key, value] of Object.entries(limit)) assert.deepEqual(checked[key as keyof typeof checked], value);
  }
});

test('defaults are filled in, and a missing seed is drawn', () => {
  const { seed, ...rest } = checkRequest({ messages });
  assert.ok(Number.isInteger(seed) && seed >= 0);
  assert.deepEqual(rest, {
    messages, max_tokens: null, temperature: null, top_p: 1, top_k: 0, min_p: 0,
    repetition_penalty: 1, frequency_penalty: 0, presence_penalty: 0, logit_bias: [], logprobs: null, variables: {}, controls: false, steps: null, threshold: null,
    editing_threshold: null, max_post_steps: null, stop: [], ignore_eos: false,
  });
  assert.deepEqual(checkRequest({ messages, stop: 'x', seed: 7 }).stop, ['x']);
});

test('undefined and null are as if left out, and what changes nothing is taken', async () => {
  const { engine, api } = setUp();
  const nothing = Object.fromEntries(['tools', 'n', 'stop', 'temperature', 'response_format', 'logit_bias', 'stream', 'signal', 'seed']
    .flatMap((key, i) => [[key, i % 2 ? null : undefined]]));
  await api.create({ ...nothing, messages, seed: 1 } as ChatRequest);
  const harmless = {
    model: 'gpt-9', user: 'ann', metadata: { a: 'b' }, service_tier: 'auto', store: false, parallel_tool_calls: true, modalities: ['text'],
    response_format: { type: 'text' }, reasoning_effort: 'low', prompt_cache_key: 'k', safety_identifier: 's', verbosity: 'medium',
    tool_choice: 'auto', tools: [], logprobs: false,
  };
  await api.create({ ...harmless, messages, seed: 1 } as ChatRequest);
  assert.deepEqual(engine.started[1], engine.started[0]);
});

test('a call takes its signal from its options too, as OpenAI\'s clients give it', async () => {
  const { engine, api } = setUp();
  const abort = new AbortController();
  abort.abort();
  await assert.rejects(api.create({ messages }, { signal: abort.signal }), { code: 'cancelled' });
  const other = new AbortController();
  await assert.rejects(api.create({ messages, signal: other.signal }, { signal: abort.signal }), { code: 'cancelled' });
  await assert.rejects(api.create({ messages }, { timeout: 5 } as object), { code: 'usage', at: 'timeout' });
  assert.equal(engine.started.length, 0);
});

test('the usage says how long a call took: from the call, its turn waited for, to the first of its answers', async () => {
  const { engine, queue } = setUp();
  let ms = 1000;
  const clock = { ...platform, now: () => ms };
  const api = completions({ engine, queue, platform: clock, modelName: 'fake' });
  const speed = { firstTokenMs: 40, prefillTokensPerSecond: 500, decodeTokensPerSecond: null };
  engine.events = [...text('Hi'), { ...done(), speed } as WasmEvent];
  const start = engine.start.bind(engine);
  engine.start = (request) => {
    const end = start(request);
    ms += 300;
    return end;
  };
  const release = await queue.turn(undefined);
  const asked = api.create({ messages, n: 2 });
  ms += 200; // another call's
  release();
  assert.deepEqual((await asked).usage.extra, {
    e2e_latency_s: 0.8, time_to_first_token_s: 0.24, prefill_tokens_per_s: 500, decode_tokens_per_s: null,
  });
  engine.events = [{ ...done(), speed: { ...speed, firstTokenMs: null } } as WasmEvent];
  assert.equal((await api.create({ messages })).usage.extra!.time_to_first_token_s, null);
});

test('several answers come one after another, of one prompt, with seeds of their own', async () => {
  const { engine, api } = setUp();
  const answer = await api.create({ messages, n: 3, seed: Number.MAX_SAFE_INTEGER - 1 });
  assert.deepEqual(answer.choices.map(({ index, message }) => [index, message.content]), [[0, 'Hello'], [1, 'Hello'], [2, 'Hello']]);
  assert.deepEqual(answer.usage, { prompt_tokens: 5, completion_tokens: 9, total_tokens: 14 });
  assert.deepEqual(engine.started.map((request) => (request as { seed: number }).seed), [Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER, 0]);
  const chunks = await collect(await api.create({ messages, n: 2, stream: true }));
  assert.deepEqual(chunks.map(({ choices: [choice] }) => [choice!.index, choice!.delta.role, choice!.finish_reason]), [
    [0, 'assistant', null], [0, undefined, null], [0, undefined, 'stop'], [1, 'assistant', null], [1, undefined, null], [1, undefined, 'stop'],
  ]);
  assert.deepEqual(chunks.map(({ usage }) => usage?.completion_tokens), [undefined, undefined, undefined, undefined, undefined, 6]);
});

test('a signal between two answers ends the call before the next begins', async () => {
  const { engine, api } = setUp();
  const abort = new AbortController();
  const chunks = await api.create({ messages, n: 3, stream: true, signal: abort.signal });
  await assert.rejects(async () => {
    for await (const { choices } of chunks) if (choices[0]!.finish_reason) abort.abort();
  }, { code: 'cancelled' });
  assert.ok(engine.started.length < 3);
});

test('how likely tokens were is told with what they add, or with what is behind them', async () => {
  const of = (id: number, text: string, logprob: number | null): WasmLogprob => [id, logprob, [...new TextEncoder().encode(text)]];
  const [a, half, b] = [of(1, 'a', -0.5), [2, -1, [0xc3]], of(3, 'b', null)] as const;
  const { api, engine } = setUp([
    { type: 'text', text: 'a', logprobs: [{ chosen: a, top: [a, b] }] },
    { type: 'control', text: '<|x|>', logprobs: [{ chosen: half, top: [] }] },
    { type: 'text', text: 'b' },
    { ...done(), logprobs: [{ chosen: b, top: [] }] },
  ]);
  const told = (token: string, logprob: number, bytes: number[], top_logprobs: object[] = []) => ({ token, logprob, bytes, top_logprobs });
  const likelier = [{ token: 'a', logprob: -0.5, bytes: [97] }, { token: 'b', logprob: -9999, bytes: [98] }];
  const wanted = [told('a', -0.5, [97], likelier), told('\ufffd', -1, [0xc3]), told('b', -9999, [98])];
  const whole = await api.create({ messages, logprobs: true, top_logprobs: 2 });
  assert.deepEqual(whole.choices[0]!.logprobs, { content: wanted, refusal: null });
  assert.equal((engine.started[0] as { logprobs: number }).logprobs, 2);
  const chunks = await collect(await api.create({ messages, logprobs: true, stream: true }));
  assert.deepEqual(chunks.map(({ choices }) => choices[0]!.logprobs?.content), wanted.map((one) => [one]));
  const plain = await collect(await api.create({ messages, stream: true }));
  assert.ok(plain.every(({ choices }) => !('logprobs' in choices[0]!)));
});

test('usage comes as stream_options says', async () => {
  const { api } = setUp();
  const own = await collect(await api.create({ messages, stream: true, stream_options: { include_usage: true } }));
  const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 };
  assert.deepEqual(own.map((chunk) => [chunk.choices.length, chunk.usage]), [[1, null], [1, null], [1, null], [0, usage]]);
  const never = await collect(await api.create({ messages, stream: true, stream_options: { include_usage: false } }));
  assert.deepEqual(never.map((chunk) => [chunk.choices.length, chunk.usage]), [[1, undefined], [1, undefined], [1, undefined]]);
});

const WEATHER = { type: 'function', function: { name: 'weather' } };
/** What a template that knows tools has. */
const TOOLS = '{{ tools }} <tool_call> </tool_call>';

const wrong: [change: Partial<Record<keyof ChatRequest, unknown>>, message: string, template?: string][] = [
  [{ temperature: 2.5 }, 'temperature is 2.5, it must be from 0 to 2 (temperature)'],
  [{ temperature: '1' }, 'temperature is 1, it must be from 0 to 2 (temperature)'],
  [{ temperature: NaN }, 'temperature is NaN, it must be from 0 to 2 (temperature)'],
  [{ top_p: 0 }, 'top_p is 0, it must be above 0 and at most 1 (top_p)'],
  [{ top_k: 1.5 }, 'top_k is 1.5, it must be a whole number, 0 or more (top_k)'],
  [{ min_p: -1 }, 'min_p is -1, it must be from 0 to 1 (min_p)'],
  [{ repetition_penalty: 0 }, 'repetition_penalty is 0, it must be above 0 and at most 2 (repetition_penalty)'],
  [{ frequency_penalty: 3 }, 'frequency_penalty is 3, it must be from -2 to 2 (frequency_penalty)'],
  [{ presence_penalty: -3 }, 'presence_penalty is -3, it must be from -2 to 2 (presence_penalty)'],
  [{ steps: 0 }, 'steps is 0, it must be a whole number, 1 or more (steps)'],
  [{ threshold: 1.5 }, 'threshold is 1.5, it must be from 0 to 1 (threshold)'],
  [{ editing_threshold: -1 }, 'editing_threshold is -1, it must be from 0 to 1 (editing_threshold)'],
  [{ max_post_steps: 1025 }, 'max_post_steps is 1025, it must be a whole number from 0 to 1024 (max_post_steps)'],
  [{ max_tokens: 0 }, 'max_tokens is 0, it must be a whole number, 1 or more (max_tokens)'],
  [{ ignore_eos: 1 }, 'ignore_eos must be true or false (ignore_eos)'],
  [{ seed: -1 }, 'seed is -1, it must be a whole number from 0 to 2^53 - 1 (seed)'],
  [{ min_p: 1.01 }, 'min_p is 1.01, it must be from 0 to 1 (min_p)'],
  [{ seed: 2 ** 53 }, 'seed is 9007199254740992, it must be a whole number from 0 to 2^53 - 1 (seed)'],
  [{ stop: Array.from({ length: 17 }, (_, i) => `stop ${i}`) }, 'stop must be at most 16 texts, none of them empty (stop)'],
  [{ stop: ['a', ''] }, 'stop must be at most 16 texts, none of them empty (stop)'],
  [{ messages: [] }, 'messages must be an array of at least one message (messages)'],
  [{ messages: [{ role: 'robot', content: '' }] }, 'role is robot, it must be system, developer, user, assistant or tool (messages[0])'],
  [{ messages: [{ role: 'function', name: 'f', content: '' }] }, 'role is function, it must be system, developer, user, assistant or tool (messages[0])'],
  [{ messages: [{ role: 'tool', content: '' }] }, 'a message of role tool must have tool_call_id (messages[0])'],
  [{ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, 'a part is of type image_url, only text is read (messages[0].content[0])'],
  [{ messages: [{ role: 'user', content: 'a', tool_calls: [{}] }] }, 'only an assistant calls tools (messages[0].tool_calls)'],
  [{ messages: [{ role: 'user', content: 'a', contents: 'b' }] }, 'contents is nothing that a message has (messages[0].contents); did you mean content?'],
  [{ messages: [{ role: 'assistant', content: 'a', audio: { id: 'b' } }] }, 'audio is not done by RLX (messages[0].audio)'],
  [{ messages: [{ role: 'user' }] }, 'content must be a text (messages[0])'],
  [{ temprature: 1 } as object, 'temprature is not a parameter of create (temprature); did you mean temperature?'],
  [{ maxTokens: 1 } as object, 'maxTokens is not a parameter of create (maxTokens); did you mean max_tokens?'],
  [{ grammar: { syntax: 'ebnf', definition: 'a' } }, 'a grammar must be a text in GBNF, or have a syntax (gbnf, lark or regex) and its definition as a text (grammar)'],
  [{ grammar: { syntax: 'regex' } }, 'a grammar must be a text in GBNF, or have a syntax (gbnf, lark or regex) and its definition as a text (grammar)'],
  [{ grammar: { syntax: 'regex', definitions: 'a' } }, 'definitions is no part of a grammar (grammar.definitions); did you mean definition?'],
  [{ grammar: 'root ::= "a"', response_format: { type: 'json_object' } }, 'grammar and response_format are two forms of one answer (grammar); give one of them'],
  [{ constructor: 1 } as object, 'constructor is not a parameter of create (constructor)'],
  [{ n: 0 }, 'n is 0, it must be a whole number from 1 to 128 (n)'],
  [{ max_tokens: 1, max_completion_tokens: 2 }, 'max_tokens and max_completion_tokens differ (max_completion_tokens); they are one option: give one of them'],
  [{ stream_options: {} }, 'stream_options is for streams (stream_options); set stream: true or leave it out'],
  [{ stream: true, stream_options: { usage: true } }, 'usage is not an option of streams (stream_options.usage)'],
  [{ stream: 1 }, 'stream must be true or false (stream)'],
  [{ logit_bias: { 5: 101 } }, 'the bias of token 5 is 101, it must be from -100 to 100 (logit_bias)'],
  [{ logit_bias: { a: 1 } }, 'a is no token id (logit_bias)'],
  [{ response_format: { type: 'xml' } }, 'response_format is of type xml, it must be text, json_object or json_schema (response_format)'],
  [{ response_format: { type: 'json_schema' } }, 'json_schema must have a schema, which is an object (response_format.json_schema)'],
  [{ functions: [] } as object, 'functions is not done by RLX (functions); use tools'],
  [{ modalities: ['text', 'audio'] }, "modalities is not done by RLX (modalities); it may be ['text']"],
  [{ store: true }, 'store is not done by RLX (store); nothing is stored'],
  [{ logprobs: 3 }, 'logprobs must be true or false (logprobs)'],
  [{ top_logprobs: 3 }, 'top_logprobs is beside logprobs (top_logprobs); set logprobs: true or leave it out'],
  [{ logprobs: true, top_logprobs: 21 }, 'top_logprobs is 21, it must be a whole number from 0 to 20 (top_logprobs)'],
  [{ tool_choice: 'required' }, 'tool_choice required needs tools (tool_choice)'],
  [{ tool_choice: 'must' }, 'tool_choice must is not done by RLX (tool_choice); it may be auto, none, required or a function'],
  [{ tool_choice: { type: 'function', function: { name: 'f' } } }, 'tool_choice is the function f, which is none of the tools (tool_choice)'],
  [{ tools: [WEATHER], tool_choice: { type: 'function', function: { name: 'wether' } } }, 'tool_choice is the function wether, which is none of the tools (tool_choice); did you mean weather?', TOOLS],
  [{ tools: [WEATHER], tool_choice: 'required', response_format: { type: 'json_object' } }, 'a forced call and another form exclude each other (tool_choice); leave response_format and grammar out, or choose auto', TOOLS],
  [{ tools: [{ type: 'function', function: { name: 'f' } }] }, "the model's chat template takes no tools (tools); use a model that was made for tools, or leave them out"],
  [{ tools: [{ type: 'custom' }] }, 'a tool is of type custom, only function is done by RLX (tools[0])'],
  [{ tools: [{ type: 'function', function: { name: 'f', strict: 1 } }] }, 'tools[0].function.strict must be true or false (tools[0].function.strict)'],
  [{ tools: [WEATHER], parallel_tool_calls: 1 }, 'parallel_tool_calls must be true or false (parallel_tool_calls)', TOOLS],
  [{ chat_template_kwargs: { enable_thinking: false } }, "the model's chat template has no variable enable_thinking (chat_template_kwargs.enable_thinking)"],
];
for (const [change, message, template = ''] of wrong) {
  test(`${message}: refused before anything is started`, async () => {
    const { engine, api } = setUp();
    engine.templateText = template || '{{ messages }}';
    await assert.rejects(api.create({ messages, ...change } as ChatRequest), { code: 'usage', message });
    assert.equal(engine.started.length, 0);
  });
}
