// An engine in a worker: how it starts, what it costs to end it, whose worker it may be, and where there is none.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const MODEL = '/fixtures/gguf/llama.gguf';
const all = { ...mounts, '/fixtures/': join(root, 'tests/fixtures') };

let server, browser;
before(async () => {
  server = await startServer({ mounts: all });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** A page of a server, with `t` in it: the package from `dist`, engines to be loaded, and questions. */
async function open(url = server.url, dist = '/dist/index.js') {
  const opened = await openPage(browser, `${url}/pages/empty.html`);
  await opened.page.evaluate(async ({ model, dist }) => {
    const { Engine } = await import(dist);
    const notices = [];
    const load = (options) => Engine.load({ model, device: 'cpu', cache: false, onNotice: ({ code }) => notices.push(code), ...options });
    const ask = async (engine, more) => (await engine.chat.completions.create({
      messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 8, ...more,
    })).choices[0].message.content;
    const settled = (promise) => promise.then((value) => ({ value }), ({ code, what, hint }) => ({ code, what, hint }));
    globalThis.t = { Engine, load, ask, settled, notices };
    const here = await load({ worker: false });
    t.want = await ask(here);
    here.dispose();
  }, { model: MODEL, dist });
  return opened;
}

/** Workers of a page, once there are as many as they should be. */
async function workers(page, count) {
  for (let i = 0; i < 200 && page.workers().length !== count; i++) await new Promise((resolve) => setTimeout(resolve, 20));
  return page.workers().length;
}

test('a page\'s engine has a worker, which is gone with it, twenty times', async () => {
  const { page, context } = await open();
  for (let i = 0; i < 20; i++) {
    const same = await page.evaluate(async () => {
      globalThis.engine = await t.load();
      return (await t.ask(engine)) === t.want && engine.info().device === 'cpu';
    });
    assert.ok(same);
    if (i === 0) assert.equal(page.workers().length, 1);
    await page.evaluate(() => engine[Symbol.asyncDispose]());
  }
  assert.equal(await workers(page, 0), 0);
  await context.close();
});

test('a load that fails or is stopped, in any phase, leaves no worker', async () => {
  const { page, context } = await open();
  const failed = await page.evaluate(() => t.settled(t.load({ model: '/nothing.gguf' })));
  assert.deepEqual([failed.code, /nothing\.gguf/.test(failed.what + failed.hint)], ['io', false]);
  const codes = await page.evaluate(async () => {
    const codes = [];
    for (const phase of ['start', 'headers', 'compile', 'weights', 'ready']) {
      const abort = new AbortController();
      const loading = t.load({ signal: abort.signal, onProgress: (progress) => progress.phase === phase && abort.abort() });
      if (phase === 'start') abort.abort();
      codes.push((await t.settled(loading)).code ?? phase);
    }
    return codes;
  });
  assert.deepEqual(codes, Array(5).fill('cancelled'));
  assert.equal(await workers(page, 0), 0);
  await context.close();
});

test('WebGPU works in a worker, and what was found about the GPU is kept for the page', { timeout: 240_000 }, async () => {
  const { page, context } = await open();
  const seen = await page.evaluate(async () => {
    localStorage.removeItem('rlx.checks');
    const phases = [];
    const visit = async () => {
      phases.length = 0;
      const engine = await t.load({ device: 'webgpu', onProgress: ({ phase }) => phases.at(-1) === phase || phases.push(phase) });
      const same = (await t.ask(engine)) === t.want;
      const { device } = engine.info();
      engine.dispose();
      return { device, same, checked: phases.includes('check') };
    };
    return [await visit(), await visit(), Object.keys(JSON.parse(localStorage.getItem('rlx.checks'))).length];
  });
  assert.deepEqual(seen, [{ device: 'webgpu', same: true, checked: true }, { device: 'webgpu', same: true, checked: false }, 1]);
  await context.close();
});

test('auto does not take a GPU that the processor simulates, and says so', async () => {
  const { page, context } = await open();
  const { device, fallbackReason } = await page.evaluate(async () => {
    const engine = await t.load({ device: 'auto' });
    const info = engine.info();
    engine.dispose();
    return info;
  });
  assert.equal(device, 'cpu');
  assert.match(fallbackReason, /^the GPU is simulated by the processor \(.*swiftshader.*\)/i);
  await context.close();
});

test('an application\'s own worker runs engines beside its own work, and stays', async () => {
  const { page, context } = await open();
  const seen = await page.evaluate(async () => {
    const worker = new Worker('/pages/own_worker.mjs', { type: 'module' });
    const [one, two] = await Promise.all([t.load({ worker }), t.load({ worker })]);
    const answers = await Promise.all([t.ask(one), t.ask(two)]);
    one.dispose();
    const left = await t.ask(two);
    two.dispose();
    const heard = new Promise((resolve) => worker.addEventListener('message', ({ data }) => resolve(data)));
    worker.postMessage('hello');
    return { same: [...answers, left].every((answer) => answer === t.want), heard: await heard };
  });
  assert.deepEqual(seen, { same: true, heard: 'hello to you' });
  assert.equal(page.workers().length, 1);
  const byAddress = await page.evaluate(async () => {
    const engine = await t.load({ worker: '/pages/own_worker.mjs' });
    const same = (await t.ask(engine)) === t.want;
    await engine[Symbol.asyncDispose]();
    return same;
  });
  assert.ok(byAddress);
  assert.equal(await workers(page, 1), 1);
  await context.close();
});

test('tabs share one engine through a shared worker, and each ends only its own calls', async () => {
  const tabs = [await open()];
  const page = await tabs[0].context.newPage();
  await page.goto(`${server.url}/pages/empty.html`);
  const connect = async () => {
    const { Engine } = await import('/dist/index.js');
    const { port } = new SharedWorker('/pages/shared_worker.mjs', { type: 'module' });
    globalThis.engine = await Engine.connect(port);
    const { choices } = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 8 });
    return choices[0].message.content;
  };
  const answers = await Promise.all([tabs[0].page.evaluate(connect), page.evaluate(connect)]);
  assert.equal(answers[0], await tabs[0].page.evaluate(() => t.want));
  assert.equal(answers[1], answers[0]);
  await tabs[0].page.evaluate(() => engine[Symbol.asyncDispose]());
  const after = await page.evaluate(async () => {
    const { usage } = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 8 });
    return { tokens: usage.completion_tokens, reused: engine.info().reusedTokens };
  });
  assert.equal(after.tokens, 8);
  assert.ok(after.reused > 0, 'the tabs have one engine');
  await tabs[0].context.close();
});

test('a package on another origin has its worker too', async () => {
  const cdn = await startServer({ mounts, headers: { 'access-control-allow-origin': '*' } });
  try {
    const { page, context } = await open(server.url, `${cdn.url}/dist/index.js`);
    const seen = await page.evaluate(async () => {
      const engine = await t.load({ worker: true });
      return { same: (await t.ask(engine)) === t.want, notices: t.notices };
    });
    assert.deepEqual(seen, { same: true, notices: [] });
    assert.equal(page.workers().length, 1);
    await context.close();
  } finally {
    await cdn.close();
  }
});

test('where the page\'s policy allows no worker, the page\'s thread runs the engine, and is told', async () => {
  const strict = await startServer({ mounts: all, headers: { 'content-security-policy': "worker-src 'none'; script-src 'self' 'unsafe-eval'" } });
  try {
    const { page, context } = await open(strict.url);
    const seen = await page.evaluate(async () => {
      const engine = await t.load();
      const same = (await t.ask(engine)) === t.want;
      engine.dispose();
      const asked = await t.settled(t.load({ worker: true }));
      return { same, notices: t.notices, asked: asked.code };
    });
    assert.deepEqual(seen, { same: true, notices: ['worker_unavailable'], asked: 'device_unavailable' });
    await context.close();
  } finally {
    await strict.close();
  }
});

test('options that do not fit a worker are refused', async () => {
  const { page, context } = await open();
  const refused = await page.evaluate(async () => Promise.all([
    t.load({ worker: 5 }), t.load({ worker: true, gpu: navigator.gpu }),
  ].map(t.settled)));
  assert.deepEqual(refused.map(({ code }) => code), ['usage', 'usage']);
  await context.close();
});
