// What an engine runs on ends, at each step of its life, in a worker and in the page's thread: the GPU device, the wasm
// module, the worker. Whoever waits is told what ended, nothing is left, and the next load works.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

// Small, and of few formats: a GPU in software takes seconds to compile a format's kernels.
const MODEL = '/fixtures/gguf/llama.gguf';

let server, browser;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** A page with `t` in it: engines with a fate, in a worker or in the page's thread. */
async function open(place) {
  const opened = await openPage(browser, `${server.url}/pages/empty.html`);
  const { page, logs } = opened;
  await page.evaluate(async ({ model, place }) => {
    const [{ Engine }, { fates }] = await Promise.all([import('/dist/index.js'), import('/support/fates.mjs')]);
    const control = place === 'page' ? fates() : undefined;
    const channel = new BroadcastChannel('fate');
    const told = [];
    const load = (fate, options) => {
      control?.set(fate);
      return Engine.load({
        model, device: 'cpu', threads: 1, cache: false,
        worker: !control && `/pages/fated_worker.mjs?fate=${encodeURIComponent(JSON.stringify(fate ?? null))}`,
        onProgress: ({ phase }) => control?.step(`phase:${phase}`),
        onLost: ({ code }) => told.push(code),
        ...options,
      });
    };
    const tell = (fate) => new Promise((known) => {
      channel.onmessage = known;
      if (!control) return channel.postMessage(fate);
      control.set(fate);
      known();
    });
    const create = (engine, more) => engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 24, ...more });
    const ask = async (engine) => (await create(engine)).choices[0].message.content;
    const stream = async (engine, note = () => {}) => {
      for await (const _ of await create(engine, { stream: true })) {
        control?.step('chunk');
        note();
      }
    };
    /** The code of what a promise rejected with, or its value. */
    const settled = (promise) => promise.then((value) => value, ({ code }) => code);
    const turn = () => new Promise((resolve) => setTimeout(resolve, 20));
    globalThis.t = { load, tell, create, ask, stream, settled, turn, told, control };
    const engine = await load();
    t.want = await ask(engine);
    await engine[Symbol.asyncDispose]();
  }, { model: MODEL, place });
  /** Asserts that no worker is left, and that nothing was thrown to nobody. */
  const assertClean = async (message) => {
    for (let i = 0; i < 100 && page.workers().length > 0; i += 1) await page.waitForTimeout(20);
    assert.equal(page.workers().length, 0, message);
    assert.deepEqual(logs.filter((line) => /uncaught/i.test(line)), [], message);
  };
  return { ...opened, assertClean };
}

/** Slow ones, for which others stand, are there if RLX_LONG is set. */
const LONG = process.env.RLX_LONG !== undefined;
const PLACES = ['worker', 'page'];

/** Steps of a load at which its device goes, and what it says of it. */
const LOST_LOADS = {
  'it asks for the adapter': { fate: { act: 'refuse', at: ['requestAdapter'] }, code: 'device_unavailable' },
  'it makes the device': { fate: { act: 'lose', at: ['requestDevice'] }, code: 'device_lost' },
  'it asks what the device can do': { fate: { act: 'lose', at: ['createShaderModule'] }, code: 'device_lost' },
  'it compiles kernels': { fate: { act: 'lose', at: ['createComputePipelineAsync', 'createComputePipelineAsync'] }, code: 'device_lost' },
  'it uploads weights': { fate: { act: 'lose', at: ['phase:weights', 'writeBuffer', 'writeBuffer'] }, code: 'device_lost', long: true },
  'it tests itself': { fate: { act: 'lose', at: ['phase:check', 'mapAsync'] }, code: 'device_lost' },
};
for (const place of PLACES) {
  test(`a device lost in a load, in the engine's thread, a ${place}`, { timeout: 240_000 }, async (t) => {
    const { page, context, assertClean } = await open(place);
    for (const [step, { fate, code, long }] of Object.entries(LOST_LOADS)) {
      if (long && !LONG) continue;
      await t.test(`while ${step}`, async () => {
        const seen = await page.evaluate(async (fate) => {
          localStorage.removeItem('rlx.checks');
          const code = await t.settled(t.load(fate, { device: 'webgpu' }));
          return { code, live: t.control?.live ?? 0, told: t.told };
        }, fate);
        assert.deepEqual(seen, { code, live: 0, told: [] });
        await assertClean();
      });
    }
    await context.close();
  });

  if (LONG) test(`a device lost later, in the engine's thread, a ${place}`, { timeout: 240_000 }, async () => {
    const { page, context, assertClean } = await open(place);
    const seen = await page.evaluate(async () => {
      const engine = await t.load(undefined, { device: 'webgpu' });
      const seen = {};
      for (const [name, at] of [['prompt', ['start', 'submit']], ['tokens', ['start', 'chunk', 'chunk', 'chunk']]]) {
        await t.tell({ act: 'lose', at });
        const calls = await Promise.all([t.stream(engine), t.ask(engine), t.ask(engine)].map(t.settled));
        while (t.told.length === 0) await t.turn(); // who reloads sooner is told nothing
        seen[name] = [...calls, await t.settled(t.ask(engine)), t.told.splice(0)];
        await engine.reload();
      }
      await t.tell({ act: 'lose', at: [] });
      while (t.told.length === 0) await t.turn();
      seen.between = [await t.settled(t.ask(engine)), t.told.splice(0)];
      await engine.reload();
      seen.again = await t.ask(engine) === t.want;
      await t.tell({ act: 'lose', at: ['dispose'] });
      const calls = [t.settled(t.stream(engine)), t.settled(t.ask(engine))];
      await engine[Symbol.asyncDispose]();
      seen.dispose = [...await Promise.all(calls), t.told.splice(0), t.control?.live ?? 0];
      return seen;
    });
    const lost = 'device_lost';
    assert.deepEqual(seen, {
      prompt: [lost, lost, lost, lost, [lost]], tokens: [lost, lost, lost, lost, [lost]], between: [lost, [lost]],
      again: true, dispose: ['disposed', 'disposed', [], 0],
    });
    await assertClean();
    await context.close();
  });
}

test('the GPU process ends in an answer, in earnest: calls say so, and reload brings the engine back', { timeout: 240_000 }, async () => {
  const browser = await launch(); // it lets no page have a GPU that has crashed twice
  try {
    const { page } = await openPage(browser, `${server.url}/pages/empty.html`);
    const cdp = await browser.newBrowserCDPSession();
    await page.exposeFunction('crash', () => cdp.send('Browser.crashGpuProcess').catch(() => {})); // its answer may not come
    const seen = await page.evaluate(async (model) => {
      const { Engine } = await import('/dist/index.js');
      const told = [];
      const engine = await Engine.load({ model, device: 'webgpu', cache: false, onLost: ({ code, hint }) => told.push([code, hint]) });
      const create = (more) => engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 100, ...more });
      const read = async () => {
        let n = 0;
        for await (const _ of await create({ stream: true })) if (++n === 3) crash();
      };
      const settled = (promise) => promise.then(() => 'answered', ({ code, hint, text }) => [code, hint, typeof text]);
      const calls = await Promise.all([read(), create(), create()].map(settled));
      await engine.reload();
      const { usage } = await create({ max_tokens: 4 });
      const { device } = engine.info();
      await engine[Symbol.asyncDispose]();
      return { calls, told, tokens: usage.completion_tokens, device };
    }, MODEL);
    const lost = ['device_lost', 'call engine.reload()'];
    assert.deepEqual(seen, { calls: [[...lost, 'string'], [...lost, 'undefined'], [...lost, 'undefined']], told: [lost], tokens: 4, device: 'webgpu' });
  } finally {
    await browser.close();
  }
});

// The rest is on the CPU, where all is quick.

const LOADS = {
  'a header is read': ['pushHeader'],
  'the model is compiled': ['open'],
  'weights come': ['put'],
  'the load ends': ['finishLoad'],
};
const ANSWERS = {
  'a prompt is read': ['start', 'nextEvent'],
  'tokens come': ['start', 'chunk', 'chunk', 'chunk', 'nextEvent'],
};

for (const { act, name, places, code } of [
  { act: 'trap', name: 'the module traps', places: PLACES, code: 'internal' },
  { act: 'close', name: 'the worker ends', places: ['worker'], code: 'internal' },
]) {
  for (const place of places) {
    test(`${name} in the engine's thread, a ${place}: whoever waits is told, and the next load works`, { timeout: 60_000 }, async (t) => {
      const { page, context, assertClean } = await open(place);
      for (const [step, at] of Object.entries(LOADS)) {
        await t.test(`while ${step}`, async () => {
          const seen = await page.evaluate(async (fate) => [await t.settled(t.load(fate)), t.told.length], { act, at });
          assert.deepEqual(seen, [code, 0]);
          await assertClean(step);
        });
      }
      for (const [step, at] of Object.entries(ANSWERS)) {
        await t.test(`while ${step}`, async () => {
          const seen = await page.evaluate(async (fate) => {
            const engine = await t.load();
            await t.tell(fate);
            const calls = await Promise.all([t.stream(engine), t.ask(engine), t.ask(engine)].map(t.settled));
            const later = await Promise.all([t.ask(engine), engine.tokenize('Hello')].map(t.settled));
            const told = t.told.splice(0);
            await engine[Symbol.asyncDispose]();
            return { all: [...calls, ...later], told, disposed: await t.settled(t.ask(engine)), more: t.told };
          }, { act, at });
          assert.deepEqual(seen, { all: Array(5).fill(code), told: [code], disposed: 'disposed', more: [] });
          await assertClean(step);
        });
      }
      await t.test('while it is disposed', async () => {
        const seen = await page.evaluate(async (fate) => {
          const engine = await t.load();
          await t.tell(fate);
          const calls = [t.stream(engine), t.ask(engine)].map(t.settled);
          await engine[Symbol.asyncDispose]();
          const next = await t.load();
          const same = await t.ask(next) === t.want;
          await next[Symbol.asyncDispose]();
          return { all: await Promise.all(calls), told: t.told, same };
        }, { act, at: ['dispose'] });
        assert.deepEqual(seen, { all: ['disposed', 'disposed'], told: [], same: true });
        await assertClean();
      });
      await context.close();
    });
  }
}

test('an error of the application in the worker ends nothing', async () => {
  const { page, context } = await open('worker');
  for (const at of [...Object.values(LOADS), ...Object.values(ANSWERS)]) {
    const seen = await page.evaluate(async (fate) => {
      const engine = await t.load(fate);
      const same = await t.ask(engine) === t.want && await t.ask(engine) === t.want;
      await engine[Symbol.asyncDispose]();
      return { same, told: t.told };
    }, { act: 'throw', at });
    assert.deepEqual(seen, { same: true, told: [] }, String(at));
  }
  await context.close();
});

test('a worker whose module is not RLX\'s, or ends at once, is a wrong option', async () => {
  const { page, context } = await openPage(browser, `${server.url}/pages/empty.html`);
  await page.clock.install();
  const end = page.evaluate(async (model) => {
    const { Engine } = await import('/dist/index.js');
    const load = Engine.load({ model, device: 'cpu', worker: '/support/stopped.mjs' });
    globalThis.begun = true;
    return load.then(() => 'loaded', ({ code, what }) => [code, what]);
  }, MODEL);
  await page.waitForFunction('globalThis.begun');
  await page.clock.runFor(60_000);
  assert.deepEqual(await end, ['usage', 'no engine answers on the port']);
  await context.close();
});
