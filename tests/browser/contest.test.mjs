// `auto` where the GPU is no software adapter by its name: both devices run layers of the model, the faster one gets
// it, `info()` says what was timed, and a later load of the origin knows.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

// Small, and of few formats: a GPU in software takes seconds to compile a format's kernels.
const MODEL = '/fixtures/gguf/llama.gguf';
const UNTIMED = { from: null, webgpuTokensPerSecond: null, cpuTokensPerSecond: null };

let server, isolated, browser, page, logs;
before(async () => {
  const all = { ...mounts, '/fixtures/': join(root, 'tests/fixtures') };
  server = await startServer({ mounts: all });
  isolated = await startServer({ mounts: all, isolated: true });
  browser = await launch();
  ({ page, logs } = await open(server));
});
after(async () => {
  await browser?.close();
  await server?.close();
  await isolated?.close();
});

/** A page that loads models, on GPUs that say that they are hardware. */
async function open({ url }) {
  const opened = await openPage(browser, `${url}/pages/empty.html`, { oneDevice: true });
  await opened.page.evaluate(async (model) => {
    const [{ Engine }, { asHardware }, { asFastGpu }] = await Promise.all(
      ['/dist/index.js', '/support/hardware_gpu.mjs', '/support/fast_gpu.mjs'].map((path) => import(path)));
    const gpus = { slow: () => asHardware(navigator.gpu), fast: () => asFastGpu(asHardware(navigator.gpu)) };
    globalThis.t = {
      /** Loads and answers; `made` are the kernels that the GPU was asked for. */
      async load({ gpu, ...options }) {
        const { createComputePipelineAsync } = GPUDevice.prototype;
        let made = 0;
        GPUDevice.prototype.createComputePipelineAsync = function (descriptor) {
          made += 1;
          return createComputePipelineAsync.call(this, descriptor);
        };
        try {
          const engine = await Engine.load({ model, cache: false, threads: 1, gpu: gpus[gpu](), ...options });
          const fresh = engine.info();
          const answer = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 6 });
          const info = engine.info();
          engine.dispose();
          return { fresh, info, usage: answer.usage, text: answer.choices[0].message.content, made };
        } finally {
          GPUDevice.prototype.createComputePipelineAsync = createComputePipelineAsync;
        }
      },
    };
  }, MODEL);
  return opened;
}

const load = (options) => page.evaluate((options) => t.load(options), options);
const speeds = () => page.evaluate(() => Object.entries(JSON.parse(localStorage.getItem('rlx.speeds') ?? '{}')));
const forget = () => page.evaluate(() => localStorage.removeItem('rlx.speeds'));
const scripts = () => server.requests.filter(({ path }) => path.endsWith('/contest.js')).length;

test('a device that was asked for is not timed', { timeout: 240_000 }, async () => {
  for (const device of ['webgpu', 'cpu']) {
    const { info } = await load({ gpu: 'slow', device });
    assert.deepEqual([info.device, info.comparison, info.fallbackReason], [device, null, null]);
  }
  assert.deepEqual([await speeds(), scripts()], [[], 0]);
});

test('a GPU that says that it is hardware and is slow loses to the CPU, at the next load without another look', { timeout: 240_000 }, async () => {
  const cpu = await load({ gpu: 'slow', device: 'cpu' });
  const first = await load({ gpu: 'slow' });
  assert.equal(first.info.device, 'cpu', JSON.stringify(first.info));
  assert.equal(first.text, cpu.text);
  const { comparison } = first.info;
  assert.equal(comparison.from, 'measured');
  assert.ok(comparison.cpuTokensPerSecond > comparison.webgpuTokensPerSecond && comparison.webgpuTokensPerSecond > 0, JSON.stringify(comparison));
  assert.equal(comparison.reason, `the GPU (tests hardware) makes about ${comparison.webgpuTokensPerSecond} tokens a second, the CPU ${comparison.cpuTokensPerSecond}`);
  assert.equal(first.info.fallbackReason, `the CPU is faster: ${comparison.reason}`);
  const [[key, text], ...more] = await speeds();
  assert.deepEqual(more, []);
  assert.match(key, /^tests hardware; ; rlx \d+\.\d+\.\d+, kernels \d+; llama32 2 layers 2\^\d+ bytes int16; rlx-relaxed 1$/i);
  assert.equal(text, `${comparison.webgpuTokensPerSecond} ${comparison.cpuTokensPerSecond}`);

  const second = await load({ gpu: 'slow' });
  assert.deepEqual(second.info.comparison, { ...comparison, from: 'remembered' });
  assert.deepEqual([second.info.device, second.text], ['cpu', cpu.text]);
  assert.ok(second.made < first.made, `${second.made} kernels, ${first.made} when it was timed`);
});

test('where the page may share memory the GPU is timed against threads', { timeout: 240_000 }, async () => {
  const other = await open(isolated);
  const { info } = await other.page.evaluate(() => t.load({ gpu: 'slow', threads: 2 }));
  assert.deepEqual([info.device, info.adapter, info.comparison.from], ['cpu', 'relaxed-simd, 2 threads', 'measured']);
  const [key] = await other.page.evaluate(() => Object.keys(JSON.parse(localStorage.getItem('rlx.speeds'))));
  assert.match(key, /; rlx-threads-relaxed 2$/);
  assert.deepEqual(other.logs.filter((line) => line.startsWith('uncaught')), []);
  await other.context.close();
});

test('a GPU that is faster is taken, and stays so', { timeout: 240_000 }, async () => {
  await forget();
  for (const from of ['measured', 'remembered']) {
    const { info } = await load({ gpu: 'fast' });
    assert.deepEqual([info.device, info.fallbackReason, info.comparison.from], ['webgpu', null, from], JSON.stringify(info.comparison));
    assert.ok(info.comparison.webgpuTokensPerSecond > info.comparison.cpuTokensPerSecond, JSON.stringify(info.comparison));
  }
});

test('what is kept and is no pair of rates is measured again', { timeout: 240_000 }, async () => {
  const [[key]] = await speeds();
  await page.evaluate((key) => localStorage.setItem('rlx.speeds', JSON.stringify({ [key]: '1e999 <b>' })), key);
  assert.equal((await load({ gpu: 'slow' })).info.comparison.from, 'measured');
});

test('where the comparison fails the GPU is taken', { timeout: 240_000 }, async () => {
  await forget();
  const failing = await page.evaluate(async () => {
    const { now } = performance;
    // The clock is asked first when the excerpt is there.
    performance.now = () => {
      throw new Error('no clock');
    };
    try {
      const { Engine } = await import('/dist/index.js');
      const { asHardware } = await import('/support/hardware_gpu.mjs');
      const engine = await Engine.load({ model: '/fixtures/gguf/llama.gguf', activations: 'int8', cache: false, threads: 1, gpu: asHardware(navigator.gpu) });
      const info = engine.info();
      engine.dispose();
      return info;
    } finally {
      performance.now = now;
    }
  });
  assert.equal(failing.device, 'webgpu');
  const { reason, ...rates } = failing.comparison;
  assert.deepEqual(rates, UNTIMED);
  assert.match(reason, /^the GPU and the CPU were not compared: .*no clock/);
  assert.deepEqual(await speeds(), []);
});

test('an answer says how long its first token took, and how fast prompt and answer were', { timeout: 240_000 }, async () => {
  const { fresh, info, usage } = await load({ gpu: 'slow', device: 'cpu' });
  assert.deepEqual([fresh.firstTokenMs, fresh.prefillTokensPerSecond, fresh.decodeTokensPerSecond], [null, null, null]);
  const { time_to_first_token_s: first, e2e_latency_s: all, prefill_tokens_per_s, decode_tokens_per_s } = usage.extra;
  assert.ok(info.firstTokenMs > 0 && first * 1000 >= info.firstTokenMs && all >= first, JSON.stringify([info, usage]));
  assert.deepEqual([prefill_tokens_per_s, decode_tokens_per_s], [info.prefillTokensPerSecond, info.decodeTokensPerSecond]);
  assert.ok(prefill_tokens_per_s > 0 && decode_tokens_per_s > 0);
  // The rate of the prompt is over the time to the first token.
  assert.ok(Math.abs(prefill_tokens_per_s * info.firstTokenMs / 1000 - usage.prompt_tokens) < 0.01, JSON.stringify([info, usage]));
});

test('nothing of all this was an uncaught error', () => assert.deepEqual(logs.filter((line) => line.startsWith('uncaught')), []));
