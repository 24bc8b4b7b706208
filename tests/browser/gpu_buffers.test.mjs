// Loads on the GPU: they leave nothing behind, counted from outside, however they end, and wasm
// memory may grow under them.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

// Small, and of few formats: a GPU in software takes seconds to compile a format's kernels.
const MODEL = '/fixtures/gguf/llama.gguf';

let server, browser, page;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch();
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`, { oneDevice: true }));
  await page.evaluate(async (model) => {
    const [{ Engine }, { countGpu }] = await Promise.all([import('/dist/index.js'), import('/support/count_gpu.mjs')]);
    const { gpu, counts } = countGpu(navigator.gpu);
    const load = (options) => Engine.load({ model, device: 'webgpu', cache: false, gpu, ...options });
    const turn = () => new Promise((resolve) => setTimeout(resolve, 50));
    globalThis.t = { load, counts, turn };
  }, MODEL);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('three cycles of load and dispose leave no buffer and destroy no device', { timeout: 240_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const live = [];
    for (let i = 0; i < 3; i += 1) {
      const engine = await t.load();
      const { weightBytes, stateBytes, arenaBytes } = engine.info();
      const held = t.counts.liveBytes;
      engine.dispose();
      engine.dispose();
      await t.turn();
      live.push({ held, planned: weightBytes + stateBytes + arenaBytes, after: t.counts.liveBytes });
    }
    return { live, devicesDestroyed: t.counts.devicesDestroyed };
  });
  for (const { held, planned, after } of seen.live) {
    // Beyond the plan: uniforms and read-back buffers, and kernels' padding.
    assert.ok(held >= planned && held <= planned * 1.05 + 65536, JSON.stringify(seen));
    assert.equal(after, 0);
  }
  assert.equal(seen.devicesDestroyed, 0);
});

test('a model takes what it was said to need before it was loaded', { timeout: 120_000 }, async () => {
  const { memoryBytes, held } = await page.evaluate(async () => {
    const engine = await t.load();
    const messages = [{ role: 'user', content: 'Hello' }];
    await engine.chat.completions.create({ messages, temperature: 0, max_tokens: 12 });
    const { memoryBytes } = engine.info();
    const held = t.counts.liveBytes;
    engine.dispose();
    await t.turn();
    return { memoryBytes, held };
  });
  assert.ok(Math.abs(memoryBytes - held) <= 0.05 * held, `said ${memoryBytes}, held ${held}`);
});

test('a load that is stopped or fails leaves no buffer', { timeout: 120_000 }, async () => {
  const stopped = await page.evaluate(async () => {
    const abort = new AbortController();
    const onProgress = ({ phase }) => phase === 'weights' && abort.abort();
    const before = t.counts.createdBytes;
    const code = await t.load({ signal: abort.signal, onProgress }).then(() => 'loaded', (error) => error.code);
    await t.turn();
    return { code, created: t.counts.createdBytes > before, live: t.counts.liveBytes };
  });
  assert.deepEqual(stopped, { code: 'cancelled', created: true, live: 0 });
  server.behave[MODEL] = { stopAfter: 40_000 };
  const failed = await page.evaluate(async () => {
    const code = await t.load().then(() => 'loaded', (error) => error.code);
    await t.turn();
    return { code, live: t.counts.liveBytes };
  });
  delete server.behave[MODEL];
  assert.deepEqual(failed, { code: 'io', live: 0 });
});

test('wasm memory may grow between any two calls', { timeout: 120_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const grow = () => rlxMemories.forEach((memory) => memory.grow(1));
    const answers = [];
    for (const between of [() => {}, grow]) {
      const engine = await t.load({ onProgress: between });
      between();
      let text = '';
      const request = { messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 24, stream: true };
      for await (const chunk of await engine.chat.completions.create(request)) {
        text += chunk.choices[0].delta.content ?? '';
        between();
      }
      engine.dispose();
      answers.push(text);
    }
    return { memories: rlxMemories.length, answers };
  });
  assert.equal(seen.memories, 1);
  assert.ok(seen.answers[0].length > 0);
  assert.equal(seen.answers[1], seen.answers[0]);
});
