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
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`, { contest: false }));
  await page.evaluate(async (model) => {
    const [{ Engine }, { countGpu }, { asHardware }] = await Promise.all(
      ['/dist/index.js', '/support/count_gpu.mjs', '/support/hardware_gpu.mjs'].map((path) => import(path)));
    const { gpu: counted, counts } = countGpu(asHardware(navigator.gpu));
    const devices = [];
    const gpu = {
      wgslLanguageFeatures: navigator.gpu.wgslLanguageFeatures,
      async requestAdapter(options) {
        if (t.gone) return null;
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
    const load = (options) => Engine.load({ model, device: 'auto', activations: 'int8', threads: 1, cache: false, gpu, ...options });
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
    globalThis.t = {};
    Object.assign(t, { load, counts, devices, settled, ask, FIRST, next, engine: await load() });
    // The two answers of a conversation that nothing disturbs, and what the second reused.
    const first = await ask(t.engine, FIRST);
    const second = await ask(t.engine, next(first));
    t.want = { first, second, reusedTokens: t.engine.info().reusedTokens };
  }, MODEL);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('a device lost in the middle of an answer: calls say so, reload brings the conversation back', { timeout: 240_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const { engine } = t;
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
    return { want: t.want, held, answers, info, during, phases, second, after, opened: t.devices.length - devices };
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
  assert.equal(seen.after.device, 'webgpu');
  // What the lost answer had shared and added: its prompt, of which only the last row is read again.
  assert.ok(seen.after.reusedTokens > seen.want.reusedTokens, JSON.stringify(seen));
  // An engine makes a read-back buffer of 16 bytes whenever more steps are in flight than ever before, which is
  // a matter of the clock: 64 at most, a thousandth of what a device had.
  const left = Math.abs(seen.after.live - seen.held);
  assert.ok(left % 16 === 0 && left <= 16 * 64, `${left} bytes of the lost device are left`);
});

test('where no GPU comes back, auto goes on on the CPU, and nothing is left on the lost one', { timeout: 120_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const { engine } = t;
    const first = await t.ask(engine, t.FIRST);
    t.devices.at(-1).destroy(); // while nobody asks
    t.gone = true;
    await engine.reload();
    t.gone = false;
    await t.ask(engine, t.next(first));
    const { device, fallbackReason, reusedTokens } = engine.info();
    engine.dispose();
    return { device, fallbackReason, reusedTokens, live: t.counts.liveBytes, want: t.want };
  });
  assert.equal(seen.device, 'cpu');
  assert.equal(seen.fallbackReason, 'WebGPU has no adapter for this machine');
  assert.equal(seen.reusedTokens, seen.want.reusedTokens);
  assert.equal(seen.live, 0);
});

// How reloads stand among calls has nothing to do with the device: on the CPU they are quick.

test('a reload waits for the answer before it; one that fails or is stopped may be called again', async () => {
  await page.evaluate(async () => {
    t.engine = await t.load({ device: 'cpu' });
    const first = t.ask(t.engine, t.FIRST);
    await t.engine.reload();
    t.first = await first;
  });
  server.behave[MODEL] = { stopAfter: 40_000 };
  const failed = await page.evaluate(async () => {
    const reload = await t.settled(t.engine.reload());
    return { code: reload.code, call: await t.settled(t.ask(t.engine, t.FIRST)), device: t.engine.info().device };
  });
  delete server.behave[MODEL];
  assert.deepEqual(failed, { code: 'io', call: { code: 'device_lost', hint: 'call engine.reload()' }, device: 'cpu' });
  const seen = await page.evaluate(async () => {
    const abort = new AbortController();
    const onProgress = ({ phase }) => phase === 'weights' && abort.abort();
    const stopped = await t.settled(t.engine.reload({ signal: abort.signal, onProgress }));
    await t.engine.reload();
    await t.ask(t.engine, t.next(t.first));
    return { code: stopped.code, reused: t.engine.info().reusedTokens > 0 };
  });
  assert.deepEqual(seen, { code: 'cancelled', reused: true });
});

test('dispose ends a reload', async () => {
  const codes = await page.evaluate(async () => {
    const onProgress = ({ phase }) => phase === 'weights' && t.engine.dispose();
    const during = await t.settled(t.engine.reload({ onProgress }));
    const after = await t.settled(t.engine.reload());
    return [during.code, after.code];
  });
  assert.deepEqual(codes, ['disposed', 'disposed']);
});

test('a device lost while a model loads is device_lost, with nothing left', { timeout: 240_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const onProgress = ({ phase }) => phase === 'weights' && t.devices.at(-1).destroy();
    const load = await t.settled(t.load({ device: 'webgpu', onProgress }));
    return { code: load.code, live: t.counts.liveBytes };
  });
  assert.deepEqual(seen, { code: 'device_lost', live: 0 });
});

test('auto takes the CPU where the device is lost while a model loads', { timeout: 240_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const onProgress = ({ phase }) => phase === 'weights' && t.devices.at(-1).destroy();
    const [opened, before] = [t.devices.length, t.counts.liveBytes];
    const engine = await t.load({ onProgress });
    const { device, fallbackReason } = engine.info();
    engine.dispose();
    return { device, fallbackReason, opened: t.devices.length - opened, left: t.counts.liveBytes - before };
  });
  const { fallbackReason, ...rest } = seen;
  assert.match(fallbackReason, /went away|lost|destroyed/i);
  assert.deepEqual(rest, { device: 'cpu', opened: 1, left: 0 });
});
