// Chats that are longer than the context, and answers that go on behind its end, in Chromium.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { caller, launch, mounts, openPage, root, startServer } from './harness.mjs';

const MODEL = '/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf';
const CONTEXT = 128;

let server, browser, page, logs;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch({ webgpu: false });
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async ([model, contextLength]) => {
    const { Engine } = await import('/dist/index.js');
    const load = () => Engine.load({ model, device: 'cpu', contextLength });
    const say = (role, content) => ({ role, content });
    const chat = (n) => [
      say('system', 'Be brief.'),
      ...Array.from({ length: n }, (_, i) => [say('user', `What is number ${i} of a slice?`), say('assistant', `It is element ${i}.`)]).flat(),
      say('user', 'What does Vec::push do?'),
    ];
    const engine = await load();
    // No answer ends by itself.
    const ends = await engine.tokenize('<|im_end|><|end_of_text|>', { special: true });
    const endless = { temperature: 1, seed: 7, logit_bias: Object.fromEntries(Array.from(ends, (id) => [id, -100])) };
    globalThis.t = { load, chat, endless, engine, ask: (engine, request) => engine.chat.completions.create(request) };
  }, [MODEL, CONTEXT]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const inPage = caller(() => ({ page, logs }));

test('oldest turns give way: the answer is that to the messages which stay', async () => {
  const seen = await inPage(async () => {
    const messages = t.chat(9);
    const full = await t.ask(t.engine, { messages, temperature: 0 }).catch(({ code }) => code);
    const request = { temperature: 0, max_tokens: 12, overflow: 'slide' };
    const slid = await t.ask(t.engine, { messages, ...request });
    const { messages: n } = slid.usage.left_out;
    const kept = [messages[0], ...messages.slice(1 + n)];
    const fresh = await t.load();
    const shorter = await t.ask(fresh, { messages: kept, temperature: 0, max_tokens: 12 });
    fresh.dispose();
    // One more turn: the same ones are left out, so that the beginning is reused.
    const next = await t.ask(t.engine, { messages: [...messages, slid.choices[0].message, { role: 'user', content: 'Why?' }], ...request });
    return {
      full, slid, shorter, n, next, reused: t.engine.info().reusedTokens,
      tokens: [await t.engine.countTokens(messages), await t.engine.countTokens(kept)],
    };
  });
  assert.equal(seen.full, 'context_full');
  assert.equal(seen.slid.choices[0].message.content, seen.shorter.choices[0].message.content);
  assert.equal(seen.slid.usage.prompt_tokens, seen.shorter.usage.prompt_tokens);
  assert.deepEqual(seen.slid.usage.left_out, { messages: seen.n, tokens: seen.tokens[0] - seen.tokens[1] });
  assert.ok(seen.n >= 2 && seen.n % 2 === 0, `${seen.n} messages`);
  assert.ok(seen.next.usage.left_out.messages >= seen.n);
  assert.ok(seen.reused > 0, `${seen.reused} tokens are reused`);
});

test('an answer goes on behind the end of the context, in a stream without a seam', async () => {
  const seen = await inPage(async (context) => {
    const request = { messages: t.chat(1), ...t.endless, overflow: 'slide', max_tokens: 3 * context };
    const whole = await t.ask(t.engine, request);
    let text = '';
    let usage;
    for await (const chunk of await t.ask(t.engine, { ...request, stream: true })) {
      text += chunk.choices[0].delta.content ?? '';
      usage = chunk.usage ?? usage;
    }
    const { overflow, ...ends } = request;
    return { whole, text, usage, ends: await t.ask(t.engine, ends) };
  }, CONTEXT);
  assert.equal(seen.ends.choices[0].finish_reason, 'length');
  assert.ok(seen.ends.usage.completion_tokens < CONTEXT);
  assert.equal(seen.whole.choices[0].finish_reason, 'length');
  assert.equal(seen.whole.usage.completion_tokens, 3 * CONTEXT);
  assert.equal(seen.text, seen.whole.choices[0].message.content);
  assert.ok(seen.text.startsWith(seen.ends.choices[0].message.content.slice(0, -1)));
  // But for how long each took.
  const counted = ({ extra: _, ...usage }) => usage;
  assert.deepEqual(counted(seen.usage), counted(seen.whole.usage));
  const { tokens } = seen.usage.left_out;
  assert.ok(tokens > CONTEXT && tokens < 3 * CONTEXT, `${tokens} tokens were left out`);
});

test('a signal ends an answer behind a slide, and the next call works', async () => {
  const seen = await inPage(async (context) => {
    const request = { messages: t.chat(1), ...t.endless, overflow: 'slide', max_tokens: 100 * context, stream: true };
    const abort = new AbortController();
    let chunks = 0;
    const error = await (async () => {
      for await (const _ of await t.ask(t.engine, { ...request, signal: abort.signal })) {
        if (++chunks === 2 * context) abort.abort();
      }
    })().then(() => undefined, ({ code }) => code);
    const after = await t.ask(t.engine, { messages: t.chat(0), temperature: 0, max_tokens: 8 });
    const fresh = await t.load();
    const want = await t.ask(fresh, { messages: t.chat(0), temperature: 0, max_tokens: 8 });
    fresh.dispose();
    return { error, after: after.choices, want: want.choices };
  }, CONTEXT);
  assert.equal(seen.error, 'cancelled');
  assert.deepEqual(seen.after, seen.want);
});

test('what does not fit even so is an error with figures', async () => {
  const error = await inPage(async () => {
    const messages = [...t.chat(3).slice(0, -1), { role: 'user', content: 'Why? '.repeat(60) }];
    return t.ask(t.engine, { messages, overflow: 'slide' }).then(() => undefined, ({ code, what, at }) => ({ code, what, at }));
  });
  assert.deepEqual([error.code, error.at], ['context_full', 'messages']);
  assert.match(error.what, /^what cannot be left out of the messages has \d+ tokens, and an answer takes 32: the context holds 128$/);
});
