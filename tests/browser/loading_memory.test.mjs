// Shards stream to the GPU: whatever the size of the file, the page's heap grows by at most
// 24 MiB. A control that buffers the file whole must fail the same bound.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { heapMeter, launch, mounts, openPage, startServer } from './harness.mjs';

const MIB = 1 << 20;
const TENSOR_BYTES = 256 * MIB;
const HEADER_BYTES = 4096;
const BOUND = 24 * MIB;

let server, browser;
before(async () => {
  const read = (from, to) => {
    const bytes = Buffer.allocUnsafe(to - from);
    for (let i = 0; i < bytes.length; i += 1) bytes[i] = (from + i) >> 12;
    return bytes;
  };
  server = await startServer({
    mounts,
    files: { '/model': { bytes: HEADER_BYTES + TENSOR_BYTES, read } },
    behave: { '/model': { bytesPerSecond: 48 * MIB } },
  });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

async function peakOf(load) {
  const { page, context } = await openPage(browser, `${server.url}/pages/empty.html`);
  const meter = await heapMeter(page, context);
  await page.evaluate(() => import('/dist/loader.js')); // code is not what is measured
  await meter.start();
  const result = await page.evaluate(load, { HEADER_BYTES, TENSOR_BYTES });
  const peak = await meter.peak();
  await context.close();
  return { result, ...peak };
}

/** The package's loader and GPU host; in the engine's place, what tells where the bytes go. */
async function streaming({ HEADER_BYTES, TENSOR_BYTES }) {
  const [{ GpuHost }, { load }, { ShardReader }, { UrlSource }] = await Promise.all(
    ['gpu_host', 'loader', 'shard', 'source'].map((name) => import(`/dist/${name}.js`)));
  const abort = new AbortController();
  const host = await GpuHost.create(navigator.gpu);
  const half = TENSOR_BYTES / 2;
  for (const id of [1, 2]) host.createBuffer(id, half, 128 | 8 | 4, 'weights');
  let header = 0;
  const engine = {
    pushHeader: (_shard, _name, _bytes, chunk) => (header += chunk.byteLength) >= HEADER_BYTES,
    open: async () => {},
    placements: () => Float64Array.of(HEADER_BYTES, half, 1, 0, HEADER_BYTES + half, half, 2, 0),
    finishLoad: async () => {},
  };
  const shards = [new ShardReader(new UrlSource('/model'), abort.signal)];
  await load(shards, { engine, host, abort, onProgress: () => globalThis.rlxSample() });
  host.createBuffer(3, 4, 1 | 8, 'read');
  host.record(1, Uint32Array.of(2, 2, half - 4, 3, 0, 4));
  host.submit(Uint32Array.of(1));
  const last = await host.map(3, 4);
  host.dispose();
  return last[3];
}

/** The control: what a loader does that does not stream. */
async function buffering() {
  const response = await fetch('/model');
  const reader = response.body.getReader();
  const chunks = [];
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    chunks.push(step.value);
    globalThis.rlxSample();
  }
  return chunks.length;
}

test('256 MiB of tensors reach the GPU while the heap grows by at most 24 MiB', { timeout: 120_000 }, async (t) => {
  const { result, bytes, samples } = await peakOf(streaming);
  t.diagnostic(`peak ${(bytes / MIB).toFixed(1)} MiB over the start, ${samples} samples`);
  assert.equal(result, ((HEADER_BYTES + TENSOR_BYTES - 1) >> 12) & 255, 'the last byte is in its place');
  assert.ok(samples > 50, `only ${samples} samples`);
  assert.ok(bytes <= BOUND, `${bytes} bytes`);
});

test('the control, which buffers the file, breaks the same bound', { timeout: 120_000 }, async (t) => {
  const { bytes, samples } = await peakOf(buffering);
  t.diagnostic(`peak ${(bytes / MIB).toFixed(1)} MiB over the start, ${samples} samples`);
  assert.ok(bytes > BOUND, `${bytes} bytes`);
});
