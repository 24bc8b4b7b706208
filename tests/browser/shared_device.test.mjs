// Engines that share one GPU device: they answer side by side, come and go, and find no memory,
// and nothing of them is left, counted from outside.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

// Small, and of few formats: a GPU in software takes seconds to compile a format's kernels. As long
// as an engine has them, the browser gives others on the device the same.
const MODEL = '/fixtures/gguf/llama.gguf';

let server, browser, page;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch();
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`, { contest: false }));
  await page.evaluate(async (model) => {
    const [{ Engine }, { countGpu }, { asHardware }] = await Promise.all(
      ['/dist/index.js', '/support/count_gpu.mjs', '/support/hardware_gpu.mjs'].map((path) => import(path)));
    /** A `gpu` whose adapters give `device(descriptor, requestDevice)`. */
    const giving = (gpu, device) => ({
      wgslLanguageFeatures: navigator.gpu.wgslLanguageFeatures,
      async requestAdapter(options) {
        const adapter = await gpu.requestAdapter(options);
        const requestDevice = adapter.requestDevice.bind(adapter);
        adapter.requestDevice = (descriptor) => device(descriptor, requestDevice);
        return adapter;
      },
    });
    const memory = { left: Infinity, created: 0 };
    /** A device that has no memory for the buffer after `memory.left` others, and says so as WebGPU does. */
    const limited = (device) => {
      const bound = (method) => device[method].bind(device);
      const [create, push, pop] = ['createBuffer', 'pushErrorScope', 'popErrorScope'].map(bound);
      const scopes = [];
      device.pushErrorScope = (filter) => {
        scopes.push({ filter });
        push(filter);
      };
      device.popErrorScope = async () => {
        const scope = scopes.pop();
        const error = await pop();
        return scope.caught ?? error;
      };
      device.createBuffer = (descriptor) => {
        memory.created += 1;
        if (memory.left-- !== 0) return create(descriptor);
        push('validation');
        // One that is not valid, by uses that exclude each other: using it is an error of its own.
        const buffer = create({ ...descriptor, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.MAP_READ });
        void pop();
        const error = new GPUOutOfMemoryError('none is left');
        const scope = scopes.findLast(({ filter }) => filter === 'out-of-memory');
        if (scope) scope.caught ??= error;
        else device.dispatchEvent(new GPUUncapturedErrorEvent('uncapturederror', { error }));
        return buffer;
      };
      return device;
    };
    const { gpu: counted, counts } = countGpu(giving(asHardware(navigator.gpu), async (descriptor, request) => limited(await request(descriptor))));
    let only;
    const gpu = giving(counted, (descriptor, request) => (only ??= request(descriptor)));
    const load = (options) => Engine.load({ model, device: 'webgpu', activations: 'int8', cache: false, gpu, ...options });
    const ask = async (engine, content) => {
      const messages = [{ role: 'user', content }];
      const { choices } = await engine.chat.completions.create({ messages, temperature: 0, max_tokens: 12 });
      return choices[0].message.content;
    };
    const turn = () => new Promise((resolve) => setTimeout(resolve, 20));
    const settled = (promise) => promise.then((value) => ({ value }), ({ code, hint }) => ({ code, hint }));
    globalThis.t = { load, ask, turn, settled, counts, memory, engine: await load() };
    t.want = [await ask(t.engine, 'Hello'), await ask(t.engine, 'What is that?')];
    t.held = counts.liveBytes;
  }, MODEL);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('two engines on one device answer side by side as they do alone', { timeout: 120_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const other = await t.load();
    const both = t.counts.liveBytes;
    const answers = await Promise.all([
      t.ask(t.engine, 'Hello'), t.ask(other, 'What is that?'), t.ask(t.engine, 'What is that?'), t.ask(other, 'Hello'),
    ]);
    other.dispose();
    await t.turn();
    return { answers, want: t.want, both, held: t.held, live: t.counts.liveBytes, again: await t.ask(t.engine, 'Hello') };
  });
  const [hello, what] = seen.want;
  assert.notEqual(hello, what);
  assert.deepEqual(seen.answers, [hello, what, what, hello]);
  assert.ok(seen.both > seen.held * 1.5, JSON.stringify(seen));
  assert.equal(seen.live, seen.held);
  assert.equal(seen.again, hello);
});

test('twenty cycles of load and dispose beside an engine leave what it has', { timeout: 240_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const [live, held] = [[], t.counts.liveBytes];
    for (let i = 0; i < 20; i += 1) {
      const engine = await t.load();
      // Some have answered, and have recorded programs and readback buffers.
      if (i % 5 === 0) await t.ask(engine, 'Hello');
      engine.dispose();
      await t.turn();
      live.push(t.counts.liveBytes);
    }
    return { live, held, answer: await t.ask(t.engine, 'Hello'), want: t.want[0] };
  });
  assert.deepEqual(seen.live, new Array(20).fill(seen.held));
  assert.equal(seen.answer, seen.want);
});

test('a load without memory for any one buffer is out_of_memory, with nothing left', { timeout: 240_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const { memory } = t;
    const held = t.counts.liveBytes;
    const before = memory.created;
    (await t.load()).dispose();
    const buffers = memory.created - before;
    const refused = [];
    for (let n = 0; n < buffers; n += 1) {
      memory.left = n;
      const { code } = await t.settled(t.load());
      memory.left = Infinity;
      await t.turn();
      refused.push(`${code} ${t.counts.liveBytes - held}`);
    }
    const engine = await t.load();
    const answer = await t.ask(engine, 'Hello');
    engine.dispose();
    await t.turn();
    return { buffers, refused, answer, want: t.want[0], beside: await t.ask(t.engine, 'Hello') };
  });
  assert.ok(seen.buffers > 8, `${seen.buffers} buffers`);
  assert.deepEqual(seen.refused, new Array(seen.buffers).fill('out_of_memory 0'));
  assert.equal(seen.answer, seen.want);
  assert.equal(seen.beside, seen.want, 'the engine beside it was not disturbed');
});

test('memory that runs out in an answer is out_of_memory too, and the next one has its own', { timeout: 120_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const held = t.counts.liveBytes; // after every answer of the other engine: a slow one takes more readback buffers
    const engine = await t.load();
    t.memory.left = 0; // the first readback buffer
    const { code } = await t.settled(t.ask(engine, 'Hello'));
    t.memory.left = Infinity;
    await t.turn();
    const again = await t.ask(engine, 'Hello');
    engine.dispose();
    await t.turn();
    return { code, again: again === t.want[0], live: t.counts.liveBytes - held };
  });
  assert.deepEqual(seen, { code: 'out_of_memory', again: true, live: 0 });
});

test('where the GPU has no memory auto goes on on the CPU, with nothing left on the GPU', { timeout: 120_000 }, async () => {
  const seen = await page.evaluate(async () => {
    const held = t.counts.liveBytes;
    t.memory.left = 2;
    const engine = await t.load({ device: 'auto', threads: 1 });
    t.memory.left = Infinity;
    await t.turn();
    const { device, fallbackReason } = engine.info();
    const answer = await t.ask(engine, 'Hello');
    engine.dispose();
    return { device, fallbackReason, answered: answer.length > 0, live: t.counts.liveBytes - held };
  });
  assert.match(seen.fallbackReason, /memory/);
  assert.deepEqual([seen.device, seen.answered, seen.live], ['cpu', true, 0]);
});

test('the last one leaves nothing, and the device as it is', async () => {
  const seen = await page.evaluate(async () => {
    t.engine.dispose();
    await t.turn();
    return { live: t.counts.liveBytes, devicesDestroyed: t.counts.devicesDestroyed };
  });
  assert.deepEqual(seen, { live: 0, devicesDestroyed: 0 });
});
