// Conversations with the real engine in Chromium, on the wasm CPU executor: order, stops, limits,
// and a page that stays alive meanwhile.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { caller, launch, mounts, openPage, root, startServer } from './harness.mjs';

const LARGE = [1, 2, 3].map((n) => `/models/rustdoc-29m/rustdoc-29m-q4_k_m-0000${n}-of-00003.gguf`);
const SMALL = ['/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf'];

let server, browser, page, logs;
before(async () => {
  const more = { '/models/': join(root, 'models'), '/fixtures/': join(root, 'tests/fixtures') };
  server = await startServer({ mounts: { ...mounts, ...more } });
  browser = await launch({ webgpu: false });
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async ({ LARGE, SMALL }) => {
    const { Engine } = await import('/dist/index.js');
    const load = (model, options) => Engine.load({ model, device: 'cpu', cache: false, ...options });
    const user = (content) => [{ role: 'user', content }];
    const ask = (engine, request) => engine.chat.completions.create({ temperature: 0, ...request });
    /** What a promise came to: its value, or the error as a plain object. */
    const settled = (promise) => promise.then(
      (value) => ({ value }),
      ({ name, code, what, at, hint, text }) => ({ error: { name, code, what, at, hint, ...(text === undefined ? {} : { text }) } }),
    );
    const textOf = ({ choices: [{ message }] }) => message.content;
    globalThis.t = { load, user, ask, settled, textOf, LARGE, SMALL };
    t.engine = await load(LARGE);
  }, { LARGE, SMALL });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** Runs `body` in the page, with `t` there; what the page logged goes into a failure. */
const inPage = caller(() => ({ page, logs }));

test('the first chunk arrives before generation ends, the last has finish_reason and usage', async () => {
  const chunks = await inPage(async () => {
    const chunks = [];
    for await (const chunk of await t.ask(t.engine, { messages: t.user('What is ownership?'), stream: true, max_tokens: 40 })) {
      chunks.push({ ...chunk, at: performance.now() });
    }
    return chunks;
  });
  const spread = chunks.at(-1).at - chunks[0].at;
  assert.ok(chunks.length > 20, `${chunks.length} chunks`);
  // 39 tokens lie between them: if the page saw the first only at the end, next to nothing would.
  assert.ok(spread > 20, `first and last chunk ${spread} ms apart`);
  assert.deepEqual(chunks[0].choices[0].delta.role, 'assistant');
  assert.ok(chunks.slice(0, -1).every(({ choices, usage }) => choices[0].finish_reason === null && usage === undefined));
  assert.equal(chunks.at(-1).choices[0].finish_reason, 'length');
  const { extra, ...counted } = chunks.at(-1).usage;
  assert.deepEqual(counted, { prompt_tokens: 16, completion_tokens: 40, total_tokens: 56 });
  assert.ok(extra.time_to_first_token_s > 0 && extra.e2e_latency_s > extra.time_to_first_token_s, JSON.stringify(extra));
  assert.equal(new Set(chunks.map(({ id }) => id)).size, 1);
});

/** The processor time of the tasks of the page's thread while `body` runs, in ms, the longest first: a busy machine takes none of it. */
async function tasksDuring(body, argument) {
  await browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'] });
  await inPage(body, argument);
  const trace = JSON.parse((await browser.stopTracing()).toString());
  const renderers = new Set(trace.traceEvents
    .filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(({ pid, tid }) => `${pid}.${tid}`));
  const tasks = trace.traceEvents.filter(({ name, ph, pid, tid }) => ph === 'X' && /RunTask$/.test(name) && renderers.has(`${pid}.${tid}`));
  return tasks.map(({ tdur, dur }) => (tdur ?? dur) / 1000).sort((a, b) => b - a);
}

const longest = (times) => `${times.length} tasks, longest ${times.slice(0, 5).map((ms) => ms.toFixed(1)).join(', ')} ms`;

test('an engine in the page\'s thread works in slices of 50 ms at most', async (t) => {
  await inPage(async () => {
    t.here = await t.load(t.LARGE, { worker: false });
  });
  const times = await tasksDuring(async () => {
    const content = 'What does Vec::push do? '.repeat(40); // a prompt of several chunks
    await t.ask(t.here, { messages: t.user(content), max_tokens: 60 });
    t.here.dispose();
  });
  t.diagnostic(longest(times));
  assert.ok(times.filter((ms) => ms > 5).length > 10, 'the engine\'s tasks are in the trace');
  assert.ok(times[0] <= 50, `a task of ${times[0]} ms`);
});

test('an engine in a worker leaves the page\'s thread alone, from load to answer', async (t) => {
  // The trace has the browser's own pages too, which rarely have a long task; an engine's would come each time.
  let times;
  for (let visit = 0; visit < 3 && !(times?.[0] <= 50); visit += 1) {
    times = await tasksDuring(async () => {
      const engine = await t.load(t.LARGE);
      const content = 'What does Vec::push do? '.repeat(40);
      for await (const _ of await t.ask(engine, { messages: t.user(content), max_tokens: 60, stream: true }));
      engine.dispose();
    });
    t.diagnostic(longest(times));
  }
  assert.ok(times.length > 60, 'the page\'s tasks are in the trace');
  assert.ok(times[0] <= 50, `a task of ${times[0]} ms`);
  assert.ok(times.filter((ms) => ms > 5).length <= 10, 'the engine works in the page\'s thread');
});

test('turns of a conversation reuse what they have in common', async () => {
  const turns = await inPage(async () => {
    const messages = [];
    const turns = [];
    for (const content of ['What does Vec::push do?', 'What is ownership?', 'Who are you?']) {
      messages.push({ role: 'user', content });
      const { usage, choices } = await t.ask(t.engine, { messages });
      messages.push(choices[0].message);
      turns.push({ ...usage, reused: t.engine.info().reusedTokens, text: choices[0].message.content });
    }
    return turns;
  });
  assert.match(turns[0].text, /^`Vec::push` appends/);
  for (const i of [1, 2]) {
    const before = turns[i - 1];
    // All of the previous prompt at least, and of its answer all but the end.
    assert.ok(turns[i].reused >= before.prompt_tokens + before.completion_tokens - 2, JSON.stringify(turns));
    assert.ok(turns[i].reused < turns[i].prompt_tokens);
  }
});

test('going back to a conversation computes only what is new of it, and answers as before', async () => {
  const seen = await inPage(async () => {
    const engine = await t.load(t.SMALL);
    const chats = ['What does Vec::push do? ', 'What is ownership? '].map((text) => t.user(text.repeat(12)));
    const firsts = [];
    for (const messages of chats) firsts.push(await t.ask(engine, { messages, max_tokens: 8 }));
    const turns = [];
    for (const [i, messages] of chats.entries()) {
      messages.push(firsts[i].choices[0].message, ...t.user('And then?'));
      const { usage, choices } = await t.ask(engine, { messages, max_tokens: 8 });
      turns.push({ ...usage, reused: engine.info().reusedTokens, text: choices[0].message.content });
    }
    const memory = await engine.memory();
    engine.dispose();
    const fresh = [];
    for (const messages of chats) {
      const one = await t.load(t.SMALL, { conversationBytes: 0 });
      fresh.push(t.textOf(await t.ask(one, { messages, max_tokens: 8 })));
      one.dispose();
    }
    return { firsts: firsts.map(({ usage }) => usage.prompt_tokens), turns, fresh, memory };
  });
  for (const [i, turn] of seen.turns.entries()) {
    assert.ok(turn.reused >= seen.firsts[i], JSON.stringify(seen));
    assert.equal(turn.text, seen.fresh[i]);
  }
  assert.ok(seen.memory.wasm > 32 * 2 ** 20);
});

test('what was reused changes no answer', async () => {
  const [long, fresh] = await inPage(async () => {
    const messages = t.user('What does Vec::push do?');
    await t.ask(t.engine, { messages: t.user('What does Vec::pop do, in one line, and why?') });
    const after = t.textOf(await t.ask(t.engine, { messages }));
    const other = await t.load(t.LARGE);
    const fresh = t.textOf(await t.ask(other, { messages }));
    other.dispose();
    return [after, fresh];
  });
  assert.equal(long, fresh);
});

test('Stop keeps the text so far, and the next call works', async () => {
  const seen = await inPage(async () => {
    const abort = new AbortController();
    const messages = t.user('What does HashMap::entry do?');
    let text = '';
    const reading = (async () => {
      for await (const chunk of await t.ask(t.engine, { messages, stream: true, signal: abort.signal })) {
        text += chunk.choices[0].delta.content ?? '';
        if (text.length > 10) abort.abort();
      }
    })();
    const { error } = await t.settled(reading);
    const whole = t.textOf(await t.ask(t.engine, { messages, max_tokens: 64 }));
    return { error, text, whole };
  });
  assert.equal(seen.error.code, 'cancelled');
  assert.equal(seen.error.name, 'AbortError');
  assert.equal(seen.error.text, seen.text);
  assert.ok(seen.text.length > 10 && seen.text.length < seen.whole.length);
  assert.ok(seen.whole.startsWith(seen.text));
});

test('leaving the loop stops the answer; a stop text ends it and is not part of it', async () => {
  const seen = await inPage(async () => {
    const messages = t.user('What does Vec::push do?');
    for await (const _ of await t.ask(t.engine, { messages, stream: true })) break;
    const stopped = await t.ask(t.engine, { messages, stop: 'element' });
    return { text: t.textOf(stopped), reason: stopped.choices[0].finish_reason };
  });
  assert.deepEqual(seen, { text: '`Vec::push` appends an ', reason: 'stop' });
});

test('calls run in the order they were made; a signal takes one out of the queue', async () => {
  const seen = await inPage(async () => {
    const abort = new AbortController();
    const order = [];
    const call = (name, signal) => {
      const run = t.ask(t.engine, { messages: t.user('Who are you?'), signal });
      run.then(() => order.push(name), () => order.push(`${name} left`));
      return t.settled(run);
    };
    const calls = [call('first'), call('second', abort.signal), call('third')];
    abort.abort();
    const [first, second, third] = await Promise.all(calls);
    return { order, same: t.textOf(first.value) === t.textOf(third.value), second };
  });
  assert.deepEqual(seen.order, ['second left', 'first', 'third']);
  assert.equal(seen.same, true);
  assert.equal(seen.second.error.code, 'cancelled');
  // A worker that is busy for some time does not say where the call was: the page then speaks for it.
  assert.match(seen.second.error.what, /^the call was cancelled( while it waited)?$/);
});

test('dispose ends the running call and the waiting one with code disposed', async () => {
  const seen = await inPage(async () => {
    const engine = await t.load(t.SMALL);
    const messages = t.user('What is HashMap?');
    const chunks = await t.ask(engine, { messages, stream: true });
    await chunks.next();
    const waiting = t.settled(t.ask(engine, { messages }));
    engine.dispose();
    engine.dispose();
    const rest = (async () => {
      for await (const _ of chunks);
    })();
    return [await t.settled(rest), await waiting, await t.settled(t.ask(engine, { messages }))]
      .map(({ error }) => [error?.code, error?.what, error?.hint]);
  });
  const disposed = ['disposed', 'the engine was disposed', 'load the model again'];
  assert.deepEqual(seen, [disposed, disposed, disposed]);
});

test('a full context ends the answer with finish_reason length', async () => {
  const seen = await inPage(async () => {
    const engine = await t.load(t.LARGE, { contextLength: 40 });
    const { usage, choices } = await t.ask(engine, { messages: t.user('What does Vec::push do?') });
    const long = await t.settled(t.ask(engine, { messages: t.user('push '.repeat(60)) }));
    const after = await t.ask(engine, { messages: t.user('What does Vec::push do?'), max_tokens: 4 });
    const { contextLength } = engine.info();
    engine.dispose();
    return { usage, reason: choices[0].finish_reason, long: long.error, after: after.usage, contextLength };
  });
  assert.equal(seen.contextLength, 40);
  assert.equal(seen.reason, 'length');
  assert.equal(seen.usage.prompt_tokens, 19);
  // The last token needs no place: it is not fed back.
  assert.ok([40, 41].includes(seen.usage.total_tokens), JSON.stringify(seen.usage));
  assert.equal(seen.long.code, 'context_full');
  assert.match(seen.long.what, /^the prompt has \d+ tokens, the context holds 40$/);
  assert.equal(seen.long.hint, 'shorten the prompt, start a new chat, or load with a longer context');
  assert.deepEqual({ ...seen.after, extra: null }, { prompt_tokens: 19, completion_tokens: 4, total_tokens: 23, extra: null });
});

test('a control token inside content stays text', async () => {
  const tokens = await inPage(async () => {
    const count = async (content) => (await t.ask(t.engine, { messages: t.user(content), max_tokens: 1 })).usage.prompt_tokens;
    return [await count('Hello'), await count('Hello<|im_end|>'), await count('Hello<|im_end|><|im_end|>')];
  });
  // As a control token each would be one token; as text it is several.
  assert.ok(tokens[1] - tokens[0] > 3, `${tokens}`);
  assert.ok(tokens[2] - tokens[1] > 3, `${tokens}`);
});

test('equal seeds give equal answers, other seeds others', async () => {
  const answers = (temperature, seeds) => inPage(async ({ temperature, seeds }) => {
    const texts = [];
    for (const seed of seeds) {
      texts.push(t.textOf(await t.ask(t.engine, { messages: t.user('Tell me about traits.'), temperature, seed, max_tokens: 40 })));
    }
    return texts;
  }, { temperature, seeds });
  const [a, b] = await answers(0.7, [1, 1]);
  assert.equal(a, b);
  // The model knows its answer by heart: at 0.7 seeds agree.
  const hot = await answers(2, [1, 1, 2, 3]);
  assert.equal(hot[0], hot[1]);
  assert.ok(new Set(hot).size > 1, JSON.stringify(hot));
});

test('wrong requests are refused with what and where', async () => {
  const errors = await inPage(async () => {
    const messages = t.user('x');
    const requests = [
      { messages: [] }, { messages: 'x' }, { messages: [{ role: 'robot', content: 'x' }] },
      { messages: [{ role: 'user', content: 1 }] }, { messages, temperature: 3 }, { messages, max_tokens: 0 }, { messages, maxTokens: 2 },
      { messages, tools: [{ type: 'function', function: { name: 'f' } }] }, { messages, top_logprobs: 1 }, { messages, logit_bias: { 99999999: 1 } },
    ];
    const errors = [];
    for (const request of requests) errors.push((await t.settled(t.ask(t.engine, request))).error);
    return errors.map(({ code, what, at }) => [code, what, at]);
  });
  assert.deepEqual(errors, [
    ['usage', 'messages must be an array of at least one message', 'messages'],
    ['usage', 'messages must be an array of at least one message', 'messages'],
    ['usage', 'role is robot, it must be system, developer, user, assistant or tool', 'messages[0]'],
    ['usage', 'content must be a text, or a list of parts', 'messages[0]'],
    ['usage', 'temperature is 3, it must be from 0 to 2', 'temperature'],
    ['usage', 'max_tokens is 0, it must be a whole number, 1 or more', 'max_tokens'],
    ['usage', 'maxTokens is not a parameter of create', 'maxTokens'],
    ['usage', "the model's chat template takes no tools", 'tools'],
    ['usage', 'top_logprobs is beside logprobs', 'top_logprobs'],
    ['usage', 'token 99999999 is outside the vocabulary', 'logit_bias'],
  ]);
});

test('several answers compute their prompt once, and biases reach the sampler', async () => {
  const seen = await inPage(async () => {
    const messages = t.user('What does Vec::push do?');
    const one = await t.ask(t.engine, { messages, max_tokens: 8 });
    const several = await t.ask(t.engine, { messages, n: 3, max_completion_tokens: 8, seed: 1, stop: null });
    const reused = t.engine.info().reusedTokens;
    const four = await t.ask(t.engine, { messages, max_tokens: 4 });
    const [first] = await t.engine.tokenize(t.textOf(one));
    const never = await t.ask(t.engine, { messages, max_tokens: 4, logit_bias: { [first]: -100 } });
    const always = await t.ask(t.engine, { messages, max_tokens: 4, logit_bias: { [first]: 100 } });
    return {
      texts: several.choices.map(({ index, message }) => [index, message.content]), one: t.textOf(one), usage: several.usage, reused,
      begin: await t.engine.detokenize([first]), four: t.textOf(four), never: t.textOf(never), always: t.textOf(always),
    };
  });
  assert.deepEqual(seen.texts, [[0, seen.one], [1, seen.one], [2, seen.one]]);
  const { extra, ...counted } = seen.usage;
  assert.deepEqual(counted, { prompt_tokens: 19, completion_tokens: 24, total_tokens: 43 });
  assert.ok(extra.time_to_first_token_s < extra.e2e_latency_s, JSON.stringify(extra));
  assert.equal(seen.reused, 18);
  assert.ok(seen.one.startsWith(seen.begin));
  assert.notEqual(seen.never, seen.four);
  assert.equal(seen.always, seen.begin.repeat(4));
});

test('wasm memory may grow between any two calls', async () => {
  const seen = await inPage(async () => {
    const grow = () => rlxMemories.forEach((memory) => memory.grow(1));
    const messages = t.user('What does Vec::push do?');
    const plain = t.textOf(await t.ask(t.engine, { messages }));
    const engine = await t.load(t.LARGE, { onProgress: grow, worker: false });
    grow();
    let text = '';
    for await (const chunk of await t.ask(engine, { messages, stream: true })) {
      text += chunk.choices[0].delta.content ?? '';
      grow();
    }
    grow();
    engine.info();
    engine.dispose();
    return { memories: rlxMemories.length, same: text === plain };
  });
  // The instance in the page's thread: there the tests see it.
  assert.ok(seen.memories > 0);
  assert.ok(seen.same);
});

test('what a listener throws is reported to the page, and the load goes on', async () => {
  const seen = await inPage(async () => {
    const reported = [];
    const note = (event) => {
      reported.push(event.error.message);
      event.preventDefault();
    };
    addEventListener('error', note);
    const thrower = (words) => () => {
      throw new Error(words);
    };
    // Without storage there is something to notice.
    Object.defineProperty(navigator.storage, 'getDirectory', { value: () => Promise.reject(new Error('no storage')) });
    Object.defineProperty(globalThis, 'caches', { value: undefined });
    const seen = [];
    for (const worker of [true, false]) {
      const engine = await t.load(t.SMALL, { worker, cache: true, onProgress: thrower('progress'), onNotice: thrower('notice') });
      await engine.reload({ onProgress: thrower('again') });
      const text = t.textOf(await t.ask(engine, { messages: t.user('What is a Vec?'), max_tokens: 4 }));
      engine.dispose();
      seen.push({ reported: [...new Set(reported.splice(0))], text });
    }
    removeEventListener('error', note);
    return seen;
  });
  // A worker has its own storage, which is there.
  assert.deepEqual(seen.map(({ reported }) => reported.sort()), [['again', 'progress'], ['again', 'notice', 'progress']]);
  assert.ok(seen.every(({ text }) => text.length > 0));
});
