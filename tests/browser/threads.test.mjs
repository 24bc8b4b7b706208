// The CPU's threads in a page: web workers that share its memory, where it may.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch, mounts, openPage, root, startServer, withLogs } from './harness.mjs';

const SMALL = '/tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf';
const all = { ...mounts, '/tests/': join(root, 'tests') };

let server, browser;
before(async () => {
  server = await startServer({ mounts: all, isolated: true });
  browser = await launch({ webgpu: false });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** Runs `work` in a page of its own, with the package as `rlx`. */
async function inPage(work, argument) {
  const opened = await openPage(browser, `${server.url}/pages/empty.html`);
  server.requests.length = 0;
  try {
    const result = await withLogs(opened, (page) => page.evaluate(work, argument));
    return { result, workers: opened.page.workers().length, logs: opened.logs };
  } finally {
    await opened.context.close();
  }
}

const wasm = () => server.asked('.wasm').map(({ path }) => path);

test('logits are the same bits whatever the number of threads', { timeout: 120_000 }, async () => {
  const { result } = await inPage(async (url) => {
    const { logitsOf } = await import('/support/logits.mjs');
    const blob = await (await fetch(url)).blob();
    const prompt = Array.from({ length: 200 }, (_, i) => 3 + (i * 37) % 500);
    const answers = [];
    for (const threads of [1, 2, 3, 2]) {
      const { logits, tokens, info } = await logitsOf({ base: '/dist', files: [blob], device: 'cpu', kv: 'f32', activations: 'int8', prompt, maxTokens: 24, threads });
      answers.push({ logits, tokens, adapter: info.adapter });
    }
    return answers;
  }, SMALL);
  assert.deepEqual(result.map(({ adapter }) => adapter), ['1 thread', '2 threads', '3 threads', '2 threads'].map((n) => `relaxed-simd, ${n}`));
  for (const { logits, tokens } of result) {
    assert.deepEqual(logits, result[0].logits);
    assert.deepEqual(tokens, result[0].tokens);
  }
});

test('an engine has one thread a core by default, and none but its own when asked for one', { timeout: 60_000 }, async () => {
  const load = async ({ model, threads, worker = false }) => {
    const { Engine } = await import('/dist/index.js');
    const engine = await Engine.load({ model, device: 'cpu', cache: false, worker, ...(threads && { threads }) });
    const answer = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'What is a Vec?' }], max_tokens: 8, temperature: 0 });
    return { adapter: engine.info().adapter, tokens: answer.usage.completion_tokens, cores: Math.min(8, navigator.hardwareConcurrency) };
  };
  const many = await inPage(load, { model: SMALL });
  const { adapter, tokens, cores } = many.result;
  assert.equal(adapter, `relaxed-simd, ${cores} thread${cores === 1 ? '' : 's'}`);
  assert.ok(tokens > 0);
  assert.equal(many.workers, cores - 1);
  // In a worker of its own it starts the others from there.
  const apart = await inPage(load, { model: SMALL, worker: true });
  assert.equal(apart.result.adapter, adapter);
  const one = await inPage(load, { model: SMALL, threads: 1 });
  assert.equal(one.result.adapter, 'relaxed-simd, 1 thread');
  assert.equal(one.workers, 0);
  assert.deepEqual(wasm(), ['/dist/rlx-relaxed.wasm']);
});

test('calls that were stopped and engines that were disposed leave workers for the next', { timeout: 60_000 }, async () => {
  const { result, workers, logs } = await inPage(async (model) => {
    const { Engine } = await import('/dist/index.js');
    const load = () => Engine.load({ model, device: 'cpu', cache: false, worker: false, threads: 2 });
    const messages = [{ role: 'user', content: 'What is ownership?' }];
    const ask = (engine, more) => engine.chat.completions.create({ messages, temperature: 0, max_tokens: 24, ...more });
    const engine = await load();
    const whole = (await ask(engine)).choices[0].message.content;
    const stop = new AbortController();
    const stopped = ask(engine, { signal: stop.signal }).catch(({ code }) => code);
    setTimeout(() => stop.abort(), 5);
    const codes = [await stopped];
    const again = (await ask(engine)).choices[0].message.content;
    const open = ask(engine).catch(({ code }) => code);
    engine.dispose();
    codes.push(await open);
    const engines = await Promise.all([load(), load()]); // at once, with two workers' seats for one
    const both = await Promise.all(engines.map((each) => ask(each)));
    return { whole, answers: [again, ...both.map(({ choices }) => choices[0].message.content)], codes };
  }, SMALL);
  assert.ok(result.whole.length > 0);
  assert.deepEqual(result.answers, [result.whole, result.whole, result.whole]);
  assert.ok(['cancelled', 'object'].includes(typeof result.codes[0] === 'string' ? result.codes[0] : 'object'));
  assert.equal(result.codes[1], 'disposed');
  assert.equal(workers, 1);
  assert.deepEqual(logs.filter((line) => /uncaught/.test(line)), []);
});

test('where no worker starts the page works alone', { timeout: 60_000 }, async () => {
  server.behave['/dist/worker.js'] = { status: 404 };
  try {
    const { result } = await inPage(async (model) => {
      const { Engine } = await import('/dist/index.js');
      const engine = await Engine.load({ model, device: 'cpu', cache: false, threads: 4 });
      const { usage } = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 4, temperature: 0 });
      return { adapter: engine.info().adapter, tokens: usage.completion_tokens };
    }, SMALL);
    assert.equal(result.adapter, 'relaxed-simd, 1 thread');
    assert.ok(result.tokens > 0);
  } finally {
    delete server.behave['/dist/worker.js'];
  }
});
