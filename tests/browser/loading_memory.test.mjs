// A model of 256 MiB and more streams to the GPU: whatever the size of the file, the page's heap
// grows by at most 24 MiB. A control that buffers the file whole must fail the same bound. On the
// CPU the weights are in wasm memory, once.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { bigGguf } from '../support/big_gguf.mjs';
import { heapMeter, launch, mounts, openPage, startServer } from './harness.mjs';

const MIB = 1 << 20;
const BOUND = 24 * MIB;
const MODEL = '/big.gguf';

let server, browser, model;
before(async () => {
  model = bigGguf({ layers: 6 });
  assert.ok(model.tensorBytes >= 256 * MIB, `${model.tensorBytes} bytes`);
  server = await startServer({ mounts, files: { [MODEL]: model }, behave: { [MODEL]: { bytesPerSecond: 32 * MIB } } });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** Runs `load` in a fresh page; what it answers, and the page's bytes at their peak over the start. */
async function peakOf(load, device) {
  const { page, context, logs } = await openPage(browser, `${server.url}/pages/empty.html`);
  try {
    const meter = await heapMeter(page, context);
    await page.evaluate(() => import('/dist/index.js')); // the package's JavaScript is not what is measured
    await meter.start();
    const result = await page.evaluate(load, { url: MODEL, device });
    return { result, ...(await meter.peak()) };
  } catch (error) {
    throw new Error(`${error.message}\n${logs.join('\n')}`, { cause: error });
  } finally {
    await context.close();
  }
}

async function streaming({ url, device: wanted }) {
  const { Engine } = await import('/dist/index.js');
  const engine = await Engine.load({ model: url, device: wanted, cache: false, worker: false, onProgress: () => globalThis.rlxSample() });
  const { device, adapter, weightBytes, stateBytes, arenaBytes } = engine.info();
  const wasmBytes = globalThis.rlxMemories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
  engine.dispose();
  return { device, adapter, weightBytes, stateBytes, arenaBytes, wasmBytes };
}

/** The control: what a loader does that does not stream. */
async function buffering({ url }) {
  const response = await fetch(url);
  const reader = response.body.getReader();
  const chunks = [];
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    chunks.push(step.value);
    globalThis.rlxSample();
  }
  return chunks.length;
}

test('256 MiB of tensors reach the GPU while the heap grows by at most 24 MiB', { timeout: 240_000 }, async (t) => {
  const { result, bytes, samples } = await peakOf(streaming, 'webgpu');
  t.diagnostic(`peak ${(bytes / MIB).toFixed(1)} MiB over the start, ${samples} samples, wasm ${(result.wasmBytes / MIB).toFixed(1)} MiB`);
  assert.equal(result.device, 'webgpu');
  assert.match(result.adapter, /swiftshader/i);
  assert.ok(result.weightBytes >= 256 * MIB && result.weightBytes <= 1.02 * model.tensorBytes, `${result.weightBytes} bytes of weights`);
  assert.ok(result.wasmBytes > 0, 'wasm memory is among what is measured');
  assert.ok(samples > 15, `only ${samples} samples`);
  assert.ok(bytes <= BOUND, `${bytes} bytes`);
});

test('the control, which buffers the file, breaks the same bound', { timeout: 240_000 }, async (t) => {
  const { bytes, samples } = await peakOf(buffering);
  t.diagnostic(`peak ${(bytes / MIB).toFixed(1)} MiB over the start, ${samples} samples`);
  assert.ok(bytes > BOUND, `${bytes} bytes`);
});

test('on the CPU the weights are held once, with at most a chunk beside them', { timeout: 240_000 }, async (t) => {
  const { result, bytes, samples } = await peakOf(streaming, 'cpu');
  const planned = result.weightBytes + result.stateBytes + result.arenaBytes;
  t.diagnostic(`peak ${(bytes / MIB).toFixed(1)} MiB over the start, ${(planned / MIB).toFixed(1)} planned, ${samples} samples`);
  assert.equal(result.device, 'cpu');
  assert.ok(result.weightBytes >= 256 * MIB && result.weightBytes <= 1.02 * model.tensorBytes, `${result.weightBytes} bytes of weights`);
  assert.ok(samples > 15, `only ${samples} samples`);
  assert.ok(bytes >= result.weightBytes, 'the weights are among what is measured');
  assert.ok(bytes <= planned + BOUND, `${bytes} bytes, ${planned} planned`);
});
