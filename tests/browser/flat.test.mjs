// Engines that come and go, and answers of every kind, leave nothing behind: heap, wasm memory, workers, listeners, and
// on a GPU its buffers.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const MODEL = '/fixtures/gguf/llama.gguf';
const MIB = 1 << 20;

let server, browser;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch({ webgpu: false });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** A page with `t` in it, and its heap as it is after the garbage has gone. */
async function open(from = browser) {
  const opened = await openPage(from, `${server.url}/pages/empty.html`);
  const { page, context } = opened;
  await page.evaluate(async (model) => {
    const { Engine } = await import('/dist/index.js');
    const load = (options) => Engine.load({ model, device: 'cpu', cache: false, ...options });
    /** Answers of a turn: whole and streamed, several, left in the middle, aborted, refused. `signal` is one for all. */
    const turn = async (engine, signal) => {
      const create = (more) => engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 4, ...more });
      const code = (promise) => promise.then(() => 'answered', (error) => error.code);
      const read = async (stream, most = Infinity) => {
        let n = 0;
        for await (const _ of await stream) if (++n === most) break;
      };
      const abort = new AbortController();
      const aborted = (async () => {
        for await (const _ of await create({ stream: true, signal: abort.signal, max_tokens: 100 })) abort.abort();
      })();
      return Promise.all([
        create({ signal }), read(create({ stream: true, signal })), create({ n: 2, seed: 1 }), read(create({ stream: true, max_tokens: 100 }), 2), aborted,
        create({ tools: [{ type: 'function', function: { name: 'f' } }] }), create({ temperature: 9 }), create({ messages: [{ role: 'user', content: 'long '.repeat(9000) }] }),
        create({ signal: AbortSignal.abort() }), engine.completions.create({ prompt: 'Hello', max_tokens: 3 }),
      ].map(code));
    };
    globalThis.t = { load, turn };
  }, MODEL);
  const cdp = await context.newCDPSession(page);
  const heap = async () => {
    await cdp.send('HeapProfiler.collectGarbage');
    const { usedSize, backingStorageSize = 0 } = await cdp.send('Runtime.getHeapUsage');
    return usedSize + backingStorageSize;
  };
  const workers = async (count) => {
    for (let i = 0; i < 100 && page.workers().length !== count; i += 1) await page.waitForTimeout(20);
    return page.workers().length;
  };
  return { ...opened, heap, workers };
}

for (const worker of [true, false]) {
  const where = worker ? 'a worker' : "the page's thread";

  test(`twenty engines in ${where}, one after another, leave no heap, wasm memory or worker`, async (t) => {
    const { page, context, heap, workers } = await open();
    const cycles = (n) => page.evaluate(async ({ worker, n }) => {
      for (let i = 0; i < n; i += 1) {
        const engine = await t.load({ worker });
        await t.turn(engine);
        await engine[Symbol.asyncDispose]();
      }
      return rlxMemories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
    }, { worker, n });
    const [wasm, before] = [await cycles(5), await heap()];
    const [wasmAfter, after] = [await cycles(20), await heap()];
    t.diagnostic(`${after - before} bytes of heap more, ${wasmAfter - wasm} of wasm memory`);
    assert.ok(after - before < MIB / 2, `${after - before} bytes of heap`);
    assert.ok(wasmAfter - wasm <= MIB, `${wasmAfter - wasm} bytes of wasm memory`);
    assert.equal(await workers(0), 0);
    await context.close();
  });

  test(`five hundred answers in ${where} leave no heap, wasm memory or listener`, async (t) => {
    const { page, context, heap } = await open();
    const answers = (turns) => page.evaluate(async ({ worker, turns }) => {
      t.engine ??= await t.load({ worker });
      if (!t.signal) {
        t.signal = new AbortController().signal;
        t.listeners = 0;
        for (const [method, n] of [['addEventListener', 1], ['removeEventListener', -1]]) {
          const original = t.signal[method].bind(t.signal);
          t.signal[method] = (...args) => {
            t.listeners += n;
            return original(...args);
          };
        }
      }
      const ends = new Set();
      for (let i = 0; i < turns; i += 1) ends.add((await t.turn(t.engine, t.signal)).join());
      return { ends: [...ends], wasm: (await t.engine.memory()).wasm, listeners: t.listeners };
    }, { worker, turns });
    const [before, heapBefore] = [await answers(10), await heap()];
    const [after, heapAfter] = [await answers(50), await heap()];
    t.diagnostic(`${heapAfter - heapBefore} bytes of heap more, ${after.wasm - before.wasm} of wasm memory; ${after.ends.join(' | ')}`);
    // A worker may have computed all of a short answer by the time that it hears of the signal.
    for (const end of after.ends) assert.match(end, /^(answered,){4}(cancelled|answered),usage,usage,context_full,cancelled,answered$/);
    assert.ok(heapAfter - heapBefore < MIB / 2, `${heapAfter - heapBefore} bytes of heap`);
    assert.equal(after.wasm, before.wasm);
    // Each is removed at least once; one that is removed twice counts below nothing.
    assert.ok(after.listeners <= 0, `${after.listeners} listeners`);
    await context.close();
  });
}

// One in software takes a second for ten.
test('two hundred answers on a GPU leave no buffer, heap or wasm memory', { timeout: 300_000 }, async (t) => {
  const withGpu = await launch();
  try {
    const { page, heap } = await open(withGpu);
    const answers = (turns) => page.evaluate(async (turns) => {
      if (!t.engine) {
        const { countGpu } = await import('/support/count_gpu.mjs');
        const { gpu, counts } = countGpu(navigator.gpu);
        Object.assign(t, { counts, engine: await t.load({ device: 'webgpu', gpu }) });
      }
      const ends = new Set();
      for (let i = 0; i < turns; i += 1) ends.add((await t.turn(t.engine)).join());
      const { submits, liveBuffers, liveBytes } = t.counts;
      return { ends: [...ends], wasm: (await t.engine.memory()).wasm, submits, buffers: [liveBuffers, liveBytes] };
    }, turns);
    const [before, heapBefore] = [await answers(4), await heap()];
    const [after, heapAfter] = [await answers(20), await heap()];
    t.diagnostic(`${after.submits - before.submits} submits; ${before.buffers} buffers and bytes, ${after.buffers} after; ${heapAfter - heapBefore} bytes of heap more`);
    for (const end of after.ends) assert.match(end, /^(answered,){4}(cancelled|answered),usage,usage,context_full,cancelled,answered$/);
    assert.ok(after.submits - before.submits > 200);
    assert.deepEqual(after.buffers, before.buffers);
    assert.equal(after.wasm, before.wasm);
    assert.ok(heapAfter - heapBefore < MIB / 4, `${heapAfter - heapBefore} bytes of heap`);
    assert.equal(await page.evaluate(async () => {
      await t.engine[Symbol.asyncDispose]();
      return t.counts.liveBuffers;
    }), 0);
  } finally {
    await withGpu.close();
  }
});
