// What a load says when it cannot succeed, what is left after it, and in which order shards may come.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const SHARDS = [1, 2, 3].map((n) => `rustdoc-29m-q4_k_m-0000${n}-of-00003.gguf`);
const SMALL = '/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf';
const ANSWER = /^`Vec::push` appends/;

let server, browser, page, logs;
before(async () => {
  const folder = join(root, 'models/rustdoc-29m');
  const third = readFileSync(join(folder, SHARDS[2]));
  server = await startServer({
    mounts: { ...mounts, '/models/': folder, '/fixtures/': join(root, 'tests/fixtures') },
    files: { '/cut/short.gguf': third.subarray(0, third.length - 1000), '/cut/header.gguf': third.subarray(0, 100) },
  });
  browser = await launch({ webgpu: false });
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async () => {
    const { Engine } = await import('/dist/index.js');
    const load = (model, options) => Engine.load({ model, device: 'cpu', cache: false, ...options });
    const answer = async (engine, max_tokens = 8) => {
      const messages = [{ role: 'user', content: 'What does Vec::push do?' }];
      return (await engine.chat.completions.create({ messages, temperature: 0, max_tokens })).choices[0].message.content;
    };
    /** Loads, answers, disposes; the answer or the error. */
    const attempt = async (model, options) => {
      try {
        const engine = await load(model, options);
        const text = await answer(engine);
        const info = engine.info();
        engine.dispose();
        return { text, info };
      } catch ({ code, what, at, hint }) {
        return { error: { code, what, at, hint } };
      }
    };
    const fetchFiles = (paths) => Promise.all(paths.map(async (path) => {
      const blob = await (await fetch(path)).blob();
      return new File([blob], path.split('/').at(-1));
    }));
    globalThis.t = { load, answer, attempt, fetchFiles };
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});
afterEach(() => {
  for (const path of Object.keys(server.behave)) delete server.behave[path];
});

const urls = (...names) => names.map((name) => (name.startsWith('/') ? name : `/models/${name}`));
const attempt = (model, options) => page.evaluate(({ model, options }) => t.attempt(model, options), { model, options });
const attemptFiles = (paths, kind = 'File') => page.evaluate(async ({ paths, kind }) => {
  const files = await t.fetchFiles(paths);
  return t.attempt(kind === 'File' ? files : files.map((file) => file.slice()));
}, { paths, kind });

const [one, two, three] = SHARDS;
for (const [name, order] of [['in order', [one, two, three]], ['backwards', [three, two, one]], ['shuffled', [two, three, one]]]) {
  test(`shards by URL, ${name}, load`, async () => assert.match((await attempt(urls(...order))).text ?? '', ANSWER));
}
for (const kind of ['File', 'Blob']) {
  test(`shards as ${kind}[] in any order load`, async () => {
    assert.match((await attemptFiles(urls(three, one, two), kind)).text ?? '', ANSWER);
  });
}

test('a shard that is missing is told by its number', async () => {
  const { error } = await attempt(urls(one, three));
  assert.deepEqual(error, {
    code: 'bad_file', what: 'missing shard 2 of 3', at: `${server.url}/models/${one}`,
    hint: 'give all shards of the model, in any order',
  });
});

test('a shard given twice is told', async () => {
  const { error } = await attemptFiles(urls(one, two, two, three));
  assert.deepEqual(error, {
    code: 'bad_file', what: `shard 2 of 3 is given twice, also as ${two}`, at: two, hint: 'give each shard once',
  });
});

test('a file of another model among the shards is told', async () => {
  const { error } = await attemptFiles([...urls(one, two), SMALL]);
  assert.deepEqual(error, {
    code: 'bad_file', what: 'a whole model, not a shard, is among the files', at: 'rustdoc-2m-q4_k_m.gguf',
    hint: 'give one whole model, or the shards of one model',
  });
});

test('a truncated shard is told before any tensor is read', async () => {
  const { error } = await attempt(urls(one, two, '/cut/short.gguf'));
  assert.deepEqual(error, {
    code: 'bad_file', what: 'the file ends at byte 4907352, the data of blk.7.ffn_up.weight at byte 4908352',
    at: `${server.url}/cut/short.gguf, byte 4907352`, hint: 'the file is incomplete; download it again',
  });
  const header = (await attempt(urls(one, two, '/cut/header.gguf'))).error;
  assert.deepEqual(header, {
    code: 'bad_file', what: 'tensor count 21 is more than a file of 100 bytes can hold',
    at: `${server.url}/cut/header.gguf, byte 8`, hint: 'the file is damaged or incomplete; download it again',
  });
});

test('a URL that answers 404 is told with its address', async () => {
  const { error } = await attempt(urls(one, two, 'none.gguf'));
  assert.deepEqual(error, {
    code: 'io', what: 'the server answered 404 Not Found', at: `${server.url}/models/none.gguf`,
    hint: 'check the address',
  });
});

test('a server that stops half way is told with the place, and the next load works', async () => {
  server.behave[`/models/${two}`] = { stopAfter: 3_000_000 };
  const { error } = await attempt(urls(one, two, three));
  assert.equal(error.code, 'io');
  assert.match(error.what, /^the stream stopped after \d+ of 6888512 bytes, in 5 tries$/);
  assert.equal(error.at, `${server.url}/models/${two}`);
  assert.equal(error.hint, 'load again');
  delete server.behave[`/models/${two}`];
  assert.match((await attempt(urls(one, two, three))).text ?? '', ANSWER);
});

test('Stop during a load ends it with code cancelled; the next load works', async () => {
  server.behave[`/models/${one}`] = { bytesPerSecond: 1_000_000 };
  const seen = await page.evaluate(async (model) => {
    const abort = new AbortController();
    const start = performance.now();
    let loaded = 0;
    const onProgress = (progress) => {
      loaded = progress.loadedBytes;
      if (progress.phase === 'weights' && loaded > 100_000) abort.abort();
    };
    const { error } = await t.attempt(model, { signal: abort.signal, onProgress });
    const before = await t.attempt(model, { signal: AbortSignal.abort() });
    return { error, before: before.error, loaded, ms: performance.now() - start };
  }, urls(one, two, three));
  assert.deepEqual([seen.error.code, seen.error.what], ['cancelled', 'the load was cancelled']);
  assert.equal(seen.before.code, 'cancelled');
  assert.ok(seen.loaded < 18_000_000 && seen.ms < 7_000, JSON.stringify(seen));
  delete server.behave[`/models/${one}`];
  assert.match((await attempt(urls(one, two, three))).text ?? '', ANSWER);
});

test('wasm memory returns after a dispose: six more loads need no room for six models', async () => {
  const bytes = await page.evaluate(async (model) => {
    const size = () => rlxMemories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
    await t.attempt(model);
    const first = size();
    for (let i = 0; i < 6; i += 1) await t.attempt(model);
    return { first, last: size() };
  }, urls(one, two, three));
  // 18 MiB a model; where small allocations lie may cost one more of them, a leak would cost six.
  assert.ok(bytes.last <= bytes.first + (24 << 20), JSON.stringify(bytes));
});

test('webgpu where there is none is device_unavailable; auto takes the CPU and says why', async () => {
  const { error } = await attempt(urls(one, two, three), { device: 'webgpu' });
  assert.equal(error.code, 'device_unavailable');
  assert.match(error.what, /^(this browser has no WebGPU|WebGPU has no adapter for this machine)$/);
  assert.equal(error.hint, "use a browser with WebGPU, or device: 'cpu'");
  const { info, text } = await attempt(urls(one, two, three), { device: 'auto' });
  assert.equal(info.device, 'cpu');
  assert.equal(info.fallbackReason, error.what);
  assert.match(text, ANSWER);
});

test('wrong options are refused by name', async () => {
  const errors = [];
  for (const options of [{ device: 'tpu' }, { contextLength: 3 }, { kv: 'q8' }, { colour: 'red' }]) {
    errors.push((await attempt(urls(one), options)).error);
  }
  errors.push((await attempt([])).error);
  assert.deepEqual(errors.map(({ code, what, at }) => [code, what, at]), [
    ['usage', 'device is tpu, it must be auto or webgpu or cpu', 'device'],
    ['usage', 'contextLength is 3, it must be a whole number from 16 to 16777216', 'contextLength'],
    ['usage', 'kv is q8, it must be f32 or f16 or q8_0', 'kv'],
    ['usage', 'colour is not an option of load', 'colour'],
    ['usage', 'model must be one address or Blob, or an array of at least one', 'model'],
  ]);
});

test('nothing of all this was an uncaught error', () => assert.deepEqual(logs.filter((line) => line.startsWith('uncaught')), []));
