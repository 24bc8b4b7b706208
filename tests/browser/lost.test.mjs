// The GPU device goes away, in earnest: what running calls and the engine say, and `reload`.

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
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async (model) => {
    const [{ Engine }, { countGpu }] = await Promise.all([import('/dist/index.js'), import('/support/count_gpu.mjs')]);
    const { gpu: counted, counts } = countGpu(navigator.gpu);
    const devices = [];
    const gpu = {
      wgslLanguageFeatures: navigator.gpu.wgslLanguageFeatures,
      async requestAdapter(options) {
        const adapter = await counted.requestAdapter(options);
        const requestDevice = adapter.requestDevice.bind(adapter);
        adapter.requestDevice = async (descriptor) => {
          const device = await requestDevice(descriptor);
          devices.push(device);
          return device;
        };
        return adapter;
      },
    };
    const load = (options) => Engine.load({ model, device: 'webgpu', cache: false, gpu, ...options });
    const turn = () => new Promise((resolve) => setTimeout(resolve, 50));
    const settled = (promise) => promise.then(
      (value) => ({ value }),
      ({ code, hint, text }) => ({ code, hint, ...(text === undefined ? {} : { text }) }),
    );
    const ask = async (engine, messages, { lose = Infinity, max_tokens = 12 } = {}) => {
      let [text, chunks] = ['', 0];
      for await (const chunk of await engine.chat.completions.create({ messages, temperature: 0, max_tokens, stream: true })) {
        text += chunk.choices[0].delta.content ?? '';
        if (++chunks === lose) devices.at(-1).destroy();
      }
      return text;
    };
    const FIRST = [{ role: 'user', content: 'Hello' }];
    const next = (text) => [...FIRST, { role: 'assistant', content: text }, { role: 'user', content: 'And then?' }];
    /** The two answers of a conversation that nothing disturbs, and what the second reused. */
    const undisturbed = async () => {
      const engine = await load();
      const first = await ask(engine, FIRST);
      const second = await ask(engine, next(first));
      const { reusedTokens } = engine.info();
      engine.dispose();
      await turn();
      return { first, second, reusedTokens };
    };
    globalThis.t = { load, counts, devices, turn, settled, ask, FIRST, next, want: await undisturbed() };
  }, MODEL);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('a device lost in the middle of an answer: calls say so, reload brings the conversation back', { timeout: 240_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const engine = await t.load();
    const first = await t.ask(engine, t.FIRST);
    const held = t.counts.liveBytes;
    const devices = t.devices.length;
    const lost = t.settled(t.ask(engine, t.next(first), { lose: 4 }));
    const queued = t.settled(t.ask(engine, t.FIRST));
    const answers = [await lost, await queued];
    const info = engine.info();
    const phases = [];
    const reload = engine.reload({ onProgress: ({ phase }) => phases.push(phase) });
    const joined = engine.reload();
    const waited = t.ask(engine, t.next(first));
    const during = engine.info().adapter;
    await Promise.all([reload, joined]);
    const second = await waited;
    const after = { ...engine.info(), live: t.counts.liveBytes };
    const opened = t.devices.length - devices;
    engine.dispose();
    await t.turn();
    return { want: t.want, first, held, answers, info, during, phases, second, after, opened, live: t.counts.liveBytes };
  });
  const [lost, queued] = seen.answers;
  assert.deepEqual([lost.code, lost.hint], ['device_lost', 'call engine.reload()']);
  assert.ok(lost.text.length > 0 && seen.want.second.startsWith(lost.text), JSON.stringify(seen));
  assert.equal(queued.code, 'device_lost');
  assert.equal(seen.info.device, 'webgpu');
  assert.equal(seen.during, seen.info.adapter);
  assert.equal(seen.opened, 1, 'the second reload joined the first');
  assert.equal(seen.phases.at(-1), 'ready');
  assert.equal(seen.second, seen.want.second);
  // What the lost answer had shared and added: its prompt, of which only the last row is read again.
  assert.ok(seen.after.reusedTokens > seen.want.reusedTokens, JSON.stringify(seen));
  assert.equal(seen.after.live, seen.held, 'nothing of the lost device is left');
  assert.equal(seen.live, 0);
});

test('a reload that fails or is stopped leaves the engine lost, and may be called again', { timeout: 240_000 }, async () => {
  await page.evaluate(async () => {
    t.engine = await t.load();
    t.first = await t.ask(t.engine, t.FIRST);
    t.devices.at(-1).destroy(); // while nobody asks
  });
  server.behave[MODEL] = { stopAfter: 40_000 };
  const failed = await page.evaluate(async () => {
    const reload = await t.settled(t.engine.reload());
    return { reload, live: t.counts.liveBytes, call: await t.settled(t.ask(t.engine, t.FIRST)), device: t.engine.info().device };
  });
  delete server.behave[MODEL];
  assert.equal(failed.reload.code, 'io');
  assert.equal(failed.live, 0);
  assert.deepEqual(failed.call, { code: 'device_lost', hint: 'call engine.reload()' });
  assert.equal(failed.device, 'webgpu');
  const seen = await page.evaluate(async () => {
    const abort = new AbortController();
    const onProgress = ({ phase }) => phase === 'weights' && abort.abort();
    const stopped = await t.settled(t.engine.reload({ signal: abort.signal, onProgress }));
    const live = t.counts.liveBytes;
    await t.engine.reload();
    const second = await t.ask(t.engine, t.next(t.first));
    const { reusedTokens } = t.engine.info();
    t.engine.dispose();
    await t.turn();
    return { stopped, live, second, reusedTokens, want: t.want, end: t.counts.liveBytes };
  });
  assert.equal(seen.stopped.code, 'cancelled');
  assert.equal(seen.live, 0);
  assert.equal(seen.second, seen.want.second);
  assert.equal(seen.reusedTokens, seen.want.reusedTokens);
  assert.equal(seen.end, 0);
});

test('a reload of a healthy engine waits for the answer before it; dispose ends one', { timeout: 240_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const engine = await t.load();
    const first = t.ask(engine, t.FIRST);
    await engine.reload();
    const second = await t.ask(engine, t.next(await first));
    const { reusedTokens } = engine.info();
    const reload = t.settled(engine.reload({ onProgress: ({ phase }) => phase === 'weights' && engine.dispose() }));
    const ended = await reload;
    await t.turn();
    const again = await t.settled(engine.reload());
    return { first: await first, second, reusedTokens, ended, again, live: t.counts.liveBytes, want: t.want };
  });
  assert.deepEqual([seen.first, seen.second, seen.reusedTokens], [seen.want.first, seen.want.second, seen.want.reusedTokens]);
  assert.deepEqual([seen.ended.code, seen.again.code], ['disposed', 'disposed']);
  assert.equal(seen.live, 0);
});

test('a device lost while a model loads is device_lost, with nothing left', { timeout: 120_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const onProgress = ({ phase }) => phase === 'weights' && t.devices.at(-1).destroy();
    const load = await t.settled(t.load({ onProgress }));
    return { code: load.code, live: t.counts.liveBytes };
  });
  assert.deepEqual(seen, { code: 'device_lost', live: 0 });
});

test('reload works on the CPU too', { timeout: 120_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const engine = await t.load({ device: 'cpu', threads: 1 });
    const first = await t.ask(engine, t.FIRST);
    await engine.reload();
    await t.ask(engine, t.next(first));
    const { device, reusedTokens } = engine.info();
    engine.dispose();
    return { device, reusedTokens };
  });
  assert.equal(seen.device, 'cpu');
  assert.ok(seen.reusedTokens > 0);
});
