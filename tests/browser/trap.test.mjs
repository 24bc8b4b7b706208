// A trap in the wasm module: whatever is pending says so, the engine can be disposed and reloaded, the next
// one loads, and an engine with an instance of its own does not notice.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const MODEL = '/fixtures/gguf/llama.gguf';
const files = {};

let server, browser, page, context, logs;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') }, files, isolated: true });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** A page with `t` in it: traps to be armed, engines to be loaded, and what they answer undisturbed. */
async function open({ device = 'cpu', threads = 1 } = {}) {
  ({ page, context, logs } = await openPage(browser, `${server.url}/pages/empty.html`, { oneDevice: true }));
  await page.evaluate(async ({ model, device, threads }) => {
    const [{ Engine }, { countGpu }, { setTraps, limitMemory }] = await Promise.all(
      [import('/dist/index.js'), import('/support/count_gpu.mjs'), import('/support/traps.mjs')]);
    const { gpu, counts } = countGpu(navigator.gpu);
    const load = (options) => Engine.load({ model, device, threads, cache: false, gpu, ...options });
    const create = (engine, more) => engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 24, ...more });
    const ask = async (engine) => (await create(engine)).choices[0].message.content;
    /** What came of a promise: its value, or what a page sees of the error. */
    const settled = (promise) => Promise.resolve(promise).then(
      (value) => ({ value }),
      ({ name, code, what, hint, text }) => ({ name, code, what, hint, ...(text === undefined ? {} : { text }) }),
    );
    const turn = () => new Promise((resolve) => setTimeout(resolve, 20));
    globalThis.t = { load, create, ask, settled, turn, counts, limitMemory, traps: setTraps() };
    const engine = await load();
    t.want = await ask(engine);
    engine.dispose();
    await turn();
  }, { model: MODEL, device, threads });
}
afterEach(async () => {
  for (const path of Object.keys(files)) delete files[path];
  await context?.close();
  context = undefined;
  assert.deepEqual(logs.filter((line) => /uncaught/i.test(line)), [], 'a trap is told to those who wait, not to the page');
});

const STOPPED = /^the wasm module stopped: /;
function assertStopped(seen, what = STOPPED) {
  assert.equal(seen.name, 'RlxError', JSON.stringify(seen));
  assert.equal(seen.code, 'internal');
  assert.match(seen.what, what);
  assert.match(seen.hint, /load the model again or call engine\.reload\(\)/);
}

/** In the page: an answer is trapped after some text, while another call of its engine and one of a second engine wait. */
const trapAnAnswer = async () => {
  const [engine, other] = [await t.load(), await t.load()];
  engine.info();
  const its = t.traps.last;
  let text = '';
  const read = async () => {
    for await (const chunk of await t.create(engine, { stream: true })) {
      text += chunk.choices[0].delta.content ?? '';
      t.traps.due = ({ name, instance }) => name === 'clock' && instance === its;
    }
  };
  const [running, queued, beside] = await Promise.all([t.settled(read()), t.settled(t.ask(engine)), t.settled(t.ask(other))]);
  t.traps.due = undefined;
  const later = [await t.settled(t.ask(engine)), await t.settled((await t.create(engine, { stream: true })).next())];
  const { adapter, weightBytes, stateBytes, arenaBytes } = engine.info();
  const otherLater = await t.settled(t.ask(other));
  const held = t.counts.liveBytes;
  engine.dispose();
  engine.dispose();
  await t.turn();
  const freed = { bytes: held - t.counts.liveBytes, planned: weightBytes + stateBytes + arenaBytes };
  const disposed = await t.settled(t.ask(engine));
  const next = await t.load();
  const answer = await t.ask(next);
  next.dispose();
  other.dispose();
  await t.turn();
  return { want: t.want, text, running, queued, beside, later, otherLater, adapter, freed, disposed, answer, live: t.counts.liveBytes };
};

test('a trap in an answer ends its engine, which can be disposed; another goes on, and the next one loads', { timeout: 120_000 }, async () => {
  await open();
  const seen = await page.evaluate(trapAnAnswer);
  for (const error of [seen.running, seen.queued, ...seen.later]) assertStopped(error, /unreachable/);
  assert.ok(seen.text.length > 0 && seen.want.startsWith(seen.text) && seen.text.length < seen.want.length, JSON.stringify(seen));
  assert.equal(seen.running.text, seen.text, 'the error has the text so far');
  assert.equal(seen.adapter, 'relaxed-simd, 1 thread');
  assert.deepEqual([seen.beside.value, seen.otherLater.value], [seen.want, seen.want], 'an engine in another instance does not notice');
  assert.equal(seen.disposed.code, 'disposed');
  assert.equal(seen.answer, seen.want);
});

test('on a GPU as well, and disposing frees its buffers', { timeout: 240_000 }, async () => {
  await open({ device: 'webgpu' });
  const seen = await page.evaluate(trapAnAnswer);
  for (const error of [seen.running, seen.queued, ...seen.later]) assertStopped(error);
  assert.deepEqual([seen.beside.value, seen.otherLater.value, seen.answer], [seen.want, seen.want, seen.want]);
  assert.ok(seen.freed.bytes >= seen.freed.planned && seen.freed.planned > 0, JSON.stringify(seen.freed));
  assert.equal(seen.live, 0);
});

test('reload brings a trapped engine back', { timeout: 120_000 }, async () => {
  await open();
  const seen = await page.evaluate(async () => {
    const engine = await t.load();
    t.traps.due = ({ name }) => name === 'clock';
    const trapped = await t.settled(t.ask(engine));
    const reload = t.settled(engine.reload());
    const [waited, info] = [t.ask(engine), engine.info().device];
    const seen = { trapped, reload: await reload, waited: await waited, info, want: t.want };
    engine.dispose();
    return seen;
  });
  assertStopped(seen.trapped);
  assert.deepEqual(seen.reload, { value: undefined });
  assert.equal(seen.waited, seen.want);
  assert.equal(seen.info, 'cpu');
});

// Where a load enters the module: in a call of the package's, or in what the browser runs for a promise of one.
const ENTRIES = [
  ...['new', 'pushHeader', 'open', 'placements', 'put', 'checks', 'finishLoad', 'found', 'info'].map((name) => ({ name: `rlxengine_${name}`, own: true })),
  { name: 'invoke', own: false },
  { name: 'clock', own: false },
];

test('a trap anywhere in a load rejects it, and the next load works', { timeout: 240_000 }, async () => {
  await open();
  for (const entry of ENTRIES) {
    const seen = await page.evaluate(async ({ name, own }) => {
      const other = await t.load();
      t.traps.due = (entry) => entry.name.includes(name) && entry.own === own;
      const trapped = await t.settled(t.load());
      const missed = t.traps.due !== undefined;
      t.traps.due = undefined;
      const next = await t.load();
      const answers = [await t.ask(next), await t.ask(other)];
      for (const engine of [next, other]) engine.dispose();
      await t.turn();
      return { trapped, missed, answers, want: t.want };
    }, entry);
    assert.equal(seen.missed, false, `a load does not enter by ${entry.name}`);
    assertStopped(seen.trapped, /unreachable/);
    assert.deepEqual(seen.answers, [seen.want, seen.want], entry.name);
  }
});

test('nothing is left on the GPU of a load that trapped', { timeout: 240_000 }, async () => {
  await open({ device: 'webgpu' });
  const seen = await page.evaluate(async () => {
    const ends = [];
    for (const [name, own] of [['invoke', false], ['rlxengine_put', true], ['rlxengine_finishLoad', true]]) {
      const before = t.counts.createdBytes;
      t.traps.due = (entry) => entry.name.includes(name) && entry.own === own && t.counts.createdBytes > before;
      const error = await t.settled(t.load());
      await t.turn();
      ends.push({ error, live: t.counts.liveBytes });
    }
    const engine = await t.load();
    const answer = await t.ask(engine);
    engine.dispose();
    return { ends, answer, want: t.want };
  });
  for (const { error, live } of seen.ends) {
    assertStopped(error, /unreachable/);
    assert.equal(live, 0);
  }
  assert.equal(seen.answer, seen.want);
});

test("a panic is told in Rust's words, with its place", { timeout: 120_000 }, async () => {
  await open();
  const seen = await page.evaluate(async () => {
    const engine = await t.load();
    const abort = new AbortController();
    // A clock that calls back into the module, which has borrowed what it works on.
    t.traps.due = ({ name, own }) => {
      if (name === 'clock' && !own) abort.abort();
      return false;
    };
    const cancelled = await t.settled(t.create(engine, { signal: abort.signal }));
    t.traps.due = undefined;
    const end = await t.settled(t.create(engine));
    engine.dispose();
    return { cancelled: cancelled.code, end, answer: await t.ask(await t.load()), want: t.want };
  });
  assert.equal(seen.cancelled, 'cancelled');
  assertStopped(seen.end, /^the wasm module stopped: .*borrowed.* \(crates\/rlx-wasm\/src\/engine\.rs:\d+\)$/);
  assert.match(seen.end.hint, /this is a bug in RLX, please report it/);
  assert.equal(seen.answer, seen.want);
});

test('an allocation that fails is told as what it is', { timeout: 120_000 }, async () => {
  await open();
  const seen = await page.evaluate(async () => {
    const { chooseBuild } = await import('/dist/builds.js');
    const bytes = new Uint8Array(await (await fetch(`/dist/${chooseBuild(false)}.wasm`)).arrayBuffer());
    const load = async (pages) => {
      const end = await t.settled(t.load({ wasm: URL.createObjectURL(t.limitMemory(bytes, pages)) }));
      return end.value ? t.ask(end.value) : end;
    };
    // None but what the module begins with, which is less than a header takes; and 64 MiB.
    const seen = { small: await load(0), large: await load(1024), want: t.want };
    const engine = await t.load();
    return { ...seen, answer: await t.ask(engine) };
  });
  assertStopped(seen.small, /unreachable/);
  assert.match(seen.small.hint, /no memory: use a smaller model or contextLength/);
  assert.deepEqual([seen.large, seen.answer], [seen.want, seen.want]);
});

/** Playwright hears of a worker's end a little later. */
async function assertWorkers(count, message) {
  for (let i = 0; i < 50 && page.workers().length > count; i += 1) await page.waitForTimeout(50);
  assert.equal(page.workers().length, count, message);
}

test('with threads a trap ends the engines that share the workers; the next one has new workers', { timeout: 120_000 }, async () => {
  await open({ threads: 3 });
  const seen = await page.evaluate(trapAnAnswer);
  for (const error of [seen.running, seen.queued, ...seen.later, seen.beside, seen.otherLater]) assertStopped(error, /unreachable/);
  assert.equal(seen.answer, seen.want);
  await assertWorkers(2, 'two for the last engine, and none of those before');
});

test('a trap in a worker ends what shares its memory', { timeout: 120_000 }, async () => {
  files['/dist/worker.js'] = Buffer.from("import '/support/trapping_worker.mjs'; import './own_worker.js';");
  files['/dist/own_worker.js'] = readFileSync(join(mounts['/dist/'], 'worker.js'));
  await open({ threads: 2 });
  const seen = await page.evaluate(async () => {
    const { WORD, ASKED } = await import('/support/trapping_worker.mjs');
    const engines = [await t.load(), await t.load()];
    const { buffer } = rlxMemories.at(-1);
    /** Asks until an answer is an error. */
    const trapped = async (engine) => {
      for (;;) {
        const end = await t.settled(t.ask(engine));
        if (end.code || end.value !== t.want) return end;
        Atomics.store(new Int32Array(buffer), WORD, ASKED);
      }
    };
    const seen = { adapter: engines[0].info().adapter, trapped: await Promise.all(engines.map(trapped)), want: t.want };
    for (const engine of engines) engine.dispose();
    return seen;
  });
  assert.match(seen.adapter, /2 threads/);
  for (const error of seen.trapped) assertStopped(error, /unreachable/);
  await assertWorkers(0, 'none of those before');
  delete files['/dist/worker.js'];
  assert.equal(await page.evaluate(async () => t.ask(await t.load())), seen.want);
  assert.equal(page.workers().length, 1);
});
