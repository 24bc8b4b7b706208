/** Text completions. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { textCompletions } from '../src/openai/text.js';
import type { TextRequest } from '../src/openai/types.js';
import { platform } from '../src/platform.js';
import { Queue } from '../src/queue.js';
import type { WasmEvent } from '../src/wasm.js';
import { FakeEngine } from './fakes.js';

function setUp() {
  const engine = new FakeEngine();
  engine.events = [{ type: 'text', text: ' wor' }, { type: 'text', text: 'ld' }, { type: 'done', reason: 'length', promptTokens: 3, completionTokens: 2 }];
  return { engine, api: textCompletions({ engine, queue: new Queue(), platform, modelName: 'fake' }) };
}

test('a text goes on, with its special tokens, for 16 tokens unless more are asked for', async () => {
  const { engine, api } = setUp();
  const { id, created, ...answer } = await api.create({ prompt: 'hi' });
  assert.match(id, /^cmpl-/);
  assert.ok(created > 0);
  assert.deepEqual(answer, {
    model: 'fake', object: 'text_completion', choices: [{ index: 0, text: ' world', logprobs: null, finish_reason: 'length' }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  });
  const [request] = engine.started as { prompt_ids: number[]; max_tokens: number }[];
  assert.deepEqual([request!.prompt_ids, request!.max_tokens], [[1, 104, 105], 16]);
});

test('prompts may be several, as texts or ids, each with n answers and its echo', async () => {
  const { api, engine } = setUp();
  const answer = await api.create({ prompt: [[104, 105], [106]], n: 2, echo: true, max_tokens: 3 });
  assert.deepEqual(answer.choices.map(({ text }) => text), ['hi world', 'hi world', 'j world', 'j world']);
  assert.deepEqual(answer.usage, { prompt_tokens: 6, completion_tokens: 8, total_tokens: 14 });
  assert.deepEqual(engine.started.map((request) => (request as { prompt_ids: number[] }).prompt_ids), [[104, 105], [104, 105], [106], [106]]);
});

test('a stream begins with the echo and ends with reason and usage', async () => {
  const { api } = setUp();
  const chunks = [];
  for await (const chunk of await api.create({ prompt: 'hi', echo: true, stream: true })) chunks.push(chunk);
  assert.deepEqual(chunks.map(({ choices: [choice] }) => [choice!.text, choice!.finish_reason]), [['hi wor', null], ['ld', null], ['', 'length']]);
  assert.equal(chunks.at(-1)!.usage!.total_tokens, 5);
});

test('the usage says how long it took', async () => {
  const { api, engine } = setUp();
  const speed = { firstTokenMs: 40, prefillTokensPerSecond: 500, decodeTokensPerSecond: 20 };
  engine.events = [...engine.events.slice(0, 2), { ...engine.events[2]!, speed } as WasmEvent];
  const { extra } = (await api.create({ prompt: 'hi' })).usage;
  assert.deepEqual([extra!.prefill_tokens_per_s, extra!.decode_tokens_per_s], [500, 20]);
  assert.ok(extra!.time_to_first_token_s! >= 0.04 && extra!.e2e_latency_s > 0, JSON.stringify(extra));
});

test('how likely tokens were, by their texts and places', async () => {
  const { api, engine } = setUp();
  const [a, b] = [[1, -0.5, [97]], [2, -1.5, [98, 99]]] as const;
  engine.events = [{ type: 'text', text: 'abc', logprobs: [{ chosen: a, top: [b] }, { chosen: b, top: [b] }] }, engine.events[2]!];
  const wanted = { tokens: ['a', 'bc'], token_logprobs: [-0.5, -1.5], top_logprobs: [{ bc: -1.5, a: -0.5 }, { bc: -1.5 }], text_offset: [0, 1] };
  const { choices } = await api.create({ prompt: 'hi', logprobs: 1 });
  assert.deepEqual(choices[0]!.logprobs, wanted);
  const chunks = [];
  for await (const chunk of await api.create({ prompt: 'hi', logprobs: 1, stream: true })) chunks.push(chunk.choices[0]!.logprobs);
  assert.deepEqual(chunks, [wanted, null]);
  await assert.rejects(api.create({ prompt: 'hi', logprobs: 1, echo: true }), { code: 'usage', at: 'echo' });
});

test('what is no prompt is refused, and the next call runs', async () => {
  const { api, engine } = setUp();
  for (const prompt of [5, [], [[]], [1, 'a'], [-1], [2 ** 32], null, [1.5]]) {
    await assert.rejects(api.create({ prompt } as unknown as TextRequest), { code: 'usage', at: 'prompt' });
  }
  await assert.rejects(api.create({ prompt: 'a', suffix: 'b' } as TextRequest), { code: 'usage', what: 'suffix is not done by RLX' });
  await assert.rejects(api.create({ prompt: 'a', messages: [] } as TextRequest), { code: 'usage', at: 'messages' });
  const detokenize = engine.detokenize.bind(engine);
  engine.detokenize = () => {
    throw '{"code":"usage","what":"token 9 is outside the 2 tokens","at":"ids","hint":""}';
  };
  await assert.rejects(api.create({ prompt: [9] }));
  engine.detokenize = detokenize;
  await api.create({ prompt: 'a' });
  assert.equal(engine.started.length, 1);
});
