// A signal ends a call at each of its steps, and the engine goes on; in a worker also while that is busy.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const MODEL = '/fixtures/gguf/llama.gguf';

let server, browser, page, logs;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch({ webgpu: false });
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async (model) => {
    const { Engine } = await import('/dist/index.js');
    const load = (options) => Engine.load({ model, device: 'cpu', cache: false, ...options });
    const create = (engine, more) => engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 100, ...more });
    const ask = async (engine) => (await create(engine, { max_tokens: 24 })).choices[0].message.content;
    const settled = (promise) => promise.then(() => 'answered', ({ code }) => code);
    globalThis.t = { load, create, ask, settled };
    const engine = await load();
    t.want = await ask(engine);
    engine.dispose();
  }, MODEL);
});
after(async () => {
  await browser?.close();
  await server?.close();
  assert.deepEqual(logs.filter((line) => /uncaught/i.test(line)), []);
});

/** Steps of a call: what it asks for beside the usual, how many calls are before it, and at which of its chunks the signal fires. */
const STEPS = {
  'it has not begun': { before: true },
  'it waits behind two': { others: 2, chunk: 0 },
  'its prompt is read': { chunk: 0, content: 'What is that? '.repeat(8) },
  'its first token has come': { chunk: 1 },
  'its tokens come': { chunk: 5 },
  'its second answer comes': { more: { n: 3, seed: 1, max_tokens: 8 }, index: 1 },
};

for (const [place, worker] of [['a worker', true], ["the page's thread", false]]) {
  test(`a signal ends an answer at any step, in ${place}`, async () => {
    for (const [name, step] of Object.entries(STEPS)) {
      const seen = await page.evaluate(async ({ step, worker }) => {
        const { before, others = 0, chunk, index, content = 'Hello', more } = step;
        t.engine ??= {};
        const engine = (t.engine[worker] ??= await t.load({ worker }));
        const abort = new AbortController();
        const earlier = Array.from({ length: others }, () => t.ask(engine));
        const read = async () => {
          if (before) abort.abort();
          const asked = t.create(engine, { messages: [{ role: 'user', content }], stream: true, signal: abort.signal, ...more });
          if (others > 0) abort.abort();
          const stream = await asked;
          let n = 0;
          if (chunk === 0) abort.abort();
          for await (const { choices } of stream) {
            n += 1;
            if (n === chunk || choices[0].index === index) abort.abort();
          }
        };
        const code = await t.settled(read());
        const same = await t.ask(engine) === t.want;
        await Promise.all(earlier);
        return { code, same };
      }, { step, worker });
      // A worker may have computed all of so short an answer by the time that it hears of the signal.
      const codes = worker && !step.before && !step.others ? ['cancelled', 'answered'] : ['cancelled'];
      assert.ok(codes.includes(seen.code) && seen.same, `${name}: ${JSON.stringify(seen)}`);
    }
  });
}

test('a signal does not wait for a worker that reads a long text', async () => {
  const seen = await page.evaluate(async () => {
    const engine = await t.load({ worker: true });
    const messages = [{ role: 'user', content: 'a text of many words, '.repeat(500_000) }];
    const order = [];
    const note = (name) => (promise) => t.settled(promise).then((code) => order.push(`${name} ${code}`));
    const abort = new AbortController();
    const all = [
      note('stream')(t.create(engine, { messages, stream: true, signal: abort.signal }).then((stream) => stream.next())),
      note('whole')(t.create(engine, { messages, signal: abort.signal })),
      note('behind')(engine.tokenize('Hello')),
    ];
    abort.abort();
    await Promise.all(all);
    const same = await t.ask(engine) === t.want;
    await engine[Symbol.asyncDispose]();
    return { order, same };
  });
  assert.deepEqual(seen, { order: ['stream cancelled', 'whole cancelled', 'behind answered'], same: true });
});

test('an engine that is disposed while it reloads is free when its disposal says so', async () => {
  const seen = await page.evaluate(async () => {
    const engine = await t.load({ worker: false });
    const order = [];
    let disposal;
    const onProgress = ({ phase }) => {
      if (phase === 'weights') disposal ??= engine[Symbol.asyncDispose]().then(() => order.push('free'));
    };
    await t.settled(engine.reload({ onProgress }).finally(() => order.push('reload')));
    await disposal;
    return order;
  });
  assert.deepEqual(seen, ['reload', 'free']);
});
