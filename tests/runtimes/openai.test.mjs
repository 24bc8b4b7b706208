// The official client of OpenAI's interface over an engine in the same process, in Node, on the CPU.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { Engine, Session } from '../../crates/rlx-wasm/js/dist/index.js';
import { handle } from '../../crates/rlx-wasm/js/dist/openai/serve.js';
import { withTemplate } from '../support/gguf_template.mjs';

const bytes = (path) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)));
const LARGE = [1, 2, 3].map((n) => new Blob([bytes(`models/rustdoc-29m/rustdoc-29m-q4_k_m-0000${n}-of-00003.gguf`)]));
const SMALL = bytes('tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf');
const messages = [{ role: 'user', content: 'What does Vec::push do?' }];

const clientOf = (engine) =>
  new OpenAI({ apiKey: '-', baseURL: 'http://rlx/v1', maxRetries: 0, fetch: (...request) => handle(new Request(...request), { engine }) });

let engine, client;
before(async () => {
  engine = await Engine.load({ model: LARGE, device: 'cpu', threads: 1, activations: 'f32', kv: 'f32' });
  client = clientOf(engine);
});
after(() => engine?.dispose());

test('whole answers and streams say the same', async () => {
  const { choices, usage } = await client.chat.completions.create({ model: 'rlx', messages, temperature: 0, max_completion_tokens: 20 });
  assert.match(choices[0].message.content, /^`Vec::push` appends/);
  let [text, last] = ['', undefined];
  const stream = await client.chat.completions.create({ model: 'rlx', messages, temperature: 0, max_tokens: 20, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? '';
    last = chunk;
  }
  assert.equal(text, choices[0].message.content);
  const { extra, ...counted } = last.usage;
  assert.deepEqual([last.choices, { ...counted, extra: usage.extra }], [[], usage]);
  assert.deepEqual(Object.keys(extra), Object.keys(usage.extra));
});

test('logprobs are those of the logits that a session gives', async () => {
  const prompt = [...await engine.tokenize('The quick brown fox', { special: true })];
  const session = await Session.load({ model: LARGE, device: 'cpu', activations: 'f32' });
  const { logits } = await session.run('logits', { ids: { data: Uint32Array.from(prompt), dims: [prompt.length] } });
  session.dispose();
  const row = logits.data.subarray(logits.data.length - logits.dims.at(-1));
  const max = row.reduce((a, b) => Math.max(a, b));
  const all = max + Math.log(row.reduce((sum, x) => sum + Math.exp(x - max), 0));
  const order = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, 5);
  const { choices } = await engine.completions.create({ prompt, temperature: 0, max_tokens: 3, logprobs: 5 });
  const { tokens, token_logprobs, top_logprobs, text_offset } = choices[0].logprobs;
  assert.equal(tokens.join(''), choices[0].text);
  assert.deepEqual(text_offset, [0, tokens[0].length, tokens[0].length + tokens[1].length]);
  assert.ok(Math.abs(token_logprobs[0] - (row[order[0]] - all)) < 1e-3, `${token_logprobs[0]} and ${row[order[0]] - all}`);
  assert.deepEqual(Object.keys(top_logprobs[0]), await Promise.all(order.map((id) => engine.detokenize([id]))));
  for (const [i, logprob] of Object.values(top_logprobs[0]).entries()) assert.ok(Math.abs(logprob - (row[order[i]] - all)) < 1e-3);
});

test('logprobs of a chat have a token each, the chosen one before biases', async () => {
  const ask = (more) => client.chat.completions.create({ model: 'rlx', messages, temperature: 0, max_tokens: 12, logprobs: true, top_logprobs: 3, ...more });
  const { choices: [{ logprobs, message }] } = await ask({});
  assert.equal(logprobs.content.length, 12);
  assert.equal(logprobs.content.map(({ token }) => token).join(''), message.content);
  for (const { token, logprob, bytes, top_logprobs } of logprobs.content) {
    assert.equal(new TextDecoder().decode(Uint8Array.from(bytes)), token);
    assert.equal(top_logprobs.length, 3);
    assert.deepEqual([top_logprobs[0].token, top_logprobs[0].logprob], [token, logprob]);
    assert.ok(top_logprobs.reduce((sum, top) => sum + Math.exp(top.logprob), 0) <= 1.0001);
  }
  const [first] = await engine.tokenize(message.content);
  const biased = (await ask({ logit_bias: { [first]: -100 } })).choices[0].logprobs.content[0];
  assert.notEqual(biased.token, logprobs.content[0].token);
  const [ours, before] = [biased.top_logprobs[0], logprobs.content[0].top_logprobs[0]];
  // The prompt's last chunk is computed in other cuts where its beginning is reused.
  assert.ok(ours.token === before.token && Math.abs(ours.logprob - before.logprob) < 1e-6);
});

test('a GPU chooses, biases and tells as the CPU does', { timeout: 300_000 }, async () => {
  process.env.VK_DRIVER_FILES = '/usr/lib/chromium/vk_swiftshader_icd.json'; // Dawn refuses lavapipe
  // Kept reachable: Dawn's Node binding frees a device under a pending promise otherwise.
  globalThis.rlxTestGpu = (await import('webgpu')).create([]);
  const answers = [];
  for (const device of ['cpu', 'webgpu']) {
    const own = await Engine.load({ model: new Blob([SMALL]), device, gpu: globalThis.rlxTestGpu, threads: 1, activations: 'f32', kv: 'f32' });
    const ask = (more) => own.chat.completions.create({ messages, temperature: 0, max_tokens: 6, logprobs: true, top_logprobs: 2, ...more });
    const plain = await ask({});
    const [first] = await own.tokenize(plain.choices[0].message.content);
    answers.push([plain, await ask({ logit_bias: { [first]: -100 } }), await ask({ logit_bias: { [first]: 100 }, frequency_penalty: 2 })]);
    own.dispose();
  }
  const [cpu, gpu] = answers.map((each) => each.map(({ choices: [{ message, logprobs }] }) => [message.content, logprobs.content]));
  for (const [i, [content, tokens]] of cpu.entries()) {
    assert.equal(gpu[i][0], content);
    tokens.forEach(({ token, logprob }, j) => {
      assert.equal(gpu[i][1][j].token, token);
      assert.ok(Math.abs(gpu[i][1][j].logprob - logprob) < 0.02, `${token}: ${gpu[i][1][j].logprob} and ${logprob}`);
    });
  }
  assert.notEqual(cpu[0][0], cpu[1][0]);
});

test('an answer that ends has no logprobs of the token that ends it', async () => {
  const { choices: [{ logprobs, message, finish_reason }] } = await client.chat.completions.create({ model: 'rlx', messages, temperature: 0, logprobs: true });
  assert.equal(finish_reason, 'stop');
  assert.equal(logprobs.content.map(({ token }) => token).join(''), message.content);
});

test("a template's own opening of thoughts, its variables and its calls reach the answer's reader", async () => {
  const template = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + (message.reasoning_content or '') + (message.tool_calls | tojson if message.tool_calls else '') + '<|im_end|>\n' }}{% endfor %}{{ tools | tojson if tools else '' }}{{ '<|im_start|>assistant\n' }}{% if enable_thinking %}{{ '<think>\n' }}{% endif %}";
  const own = await Engine.load({ model: new Blob([withTemplate(SMALL, `${template}{# <tool_call> </think> #}`)]), device: 'cpu', threads: 1 });
  const over = clientOf(own);
  const ask = (more) => over.chat.completions.create({ model: 'rlx', messages, temperature: 0, max_tokens: 8, ...more });
  const plain = (await ask({})).choices[0].message;
  assert.ok(plain.content.length > 0 && plain.reasoning_content === undefined);
  const thought = (await ask({ chat_template_kwargs: { enable_thinking: true } })).choices[0].message;
  assert.ok(thought.content === '' && thought.reasoning_content.length > 0);
  const tools = [{ type: 'function', function: { name: 'now', parameters: { type: 'object', properties: {} } } }];
  const tokens = async (more) => (await ask(more)).usage.prompt_tokens;
  assert.ok(await tokens({ tools }) > await tokens({}) + 10, 'the template has the tools');
  assert.equal(await tokens({ tools, tool_choice: 'none' }), await tokens({}));
  const call = { id: 'abcdefghi', type: 'function', function: { name: 'now', arguments: '{}' } };
  const turns = [...messages, { role: 'assistant', content: null, tool_calls: [call] }, { role: 'tool', tool_call_id: call.id, content: 'noon' }];
  assert.ok(await tokens({ messages: turns, tools }) > await tokens({ tools }) + 20, 'the template has the call');
  own.dispose();
});

test('errors of the engine are the client\'s', async () => {
  const long = [{ role: 'user', content: 'push '.repeat(5000) }];
  await assert.rejects(client.chat.completions.create({ model: 'rlx', messages: long }), { status: 400, code: 'context_length_exceeded' });
  await assert.rejects(client.chat.completions.create({ model: 'rlx', messages, response_format: { type: 'xml' } }), { status: 400, param: 'response_format' });
});
