// What the GPU host promises, for every WebGPU there is: Chromium, Node with npm `webgpu`, Deno.
// `GpuHost` comes from the built package; the cases return nothing and throw on a broken promise.

import { countGpu } from './count_gpu.mjs';

const STORAGE = 128, COPY_SRC = 4, COPY_DST = 8, MAP_READ = 1;
const ADD = `
  @group(0) @binding(0) var<storage, read> a: array<u32>;
  @group(0) @binding(1) var<storage, read_write> y: array<u32>;
  @compute @workgroup_size(64) fn add(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&y) { y[id.x] += a[id.x]; }
  }`;

function equal(got, wanted, what) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: ${a} instead of ${b}`);
}

const words = (bytes) => Array.from(new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4));
const bytes = (...numbers) => new Uint8Array(Uint32Array.from(numbers).buffer);

let nextId = 1000;

/** Runs the lists and then copies bytes to a buffer that can be mapped, in one submit; the bytes. */
async function submitAndRead(host, lists, buffer, offset, size) {
  const id = nextId++;
  host.createBuffer(id, size, MAP_READ | COPY_DST, 'read');
  host.record(id, Uint32Array.of(2, buffer, offset, id, 0, size));
  host.submit(Uint32Array.of(...lists, id));
  const read = await host.map(id, size);
  host.destroyBuffer(id);
  host.freeList(id);
  return read;
}

/** Buffers 1 (input) and 2 (accumulator) of four words, and list 1: one addition. */
async function adder(GpuHost, gpu) {
  const host = await GpuHost.create(gpu);
  for (const id of [1, 2]) host.createBuffer(id, 16, STORAGE | COPY_SRC | COPY_DST, `b${id}`);
  host.writeBuffer(1, 0, bytes(1, 2, 3, 4));
  host.writeBuffer(2, 0, bytes(10, 10, 10, 10));
  const kinds = Uint32Array.of(2, 1);
  host.createBindGroup(1, kinds, Float64Array.of(0, 1, 0, 16, 1, 2, 0, 16));
  await host.createPipeline(1, ADD, 'add', kinds);
  host.record(1, Uint32Array.of(1, 1, 1, 1, 1, 1));
  return host;
}

export const cases = {
  'a recorded list runs as often as it is named, in one submit, with one read': async ({ GpuHost, gpu }) => {
    const { gpu: counted, counts } = countGpu(gpu);
    const host = await adder(GpuHost, counted);
    equal(words(await submitAndRead(host, [1, 1], 2, 0, 16)), [12, 14, 16, 18], 'two additions');
    equal([counts.dispatches, counts.submits, counts.mappedBytes], [2, 1, 16], 'dispatches, submits, mapped bytes');
    host.dispose();
  },

  'several reads in flight each see their own step': async ({ GpuHost, gpu }) => {
    const host = await adder(GpuHost, gpu);
    const reads = [1, 2, 3, 4].map(() => submitAndRead(host, [1], 2, 0, 4));
    equal((await Promise.all(reads)).flatMap(words), [11, 12, 13, 14], 'after each step');
    host.dispose();
  },

  'a copy between dispatches happens between them': async ({ GpuHost, gpu }) => {
    const host = await adder(GpuHost, gpu);
    host.record(2, Uint32Array.of(1, 1, 1, 1, 1, 1, 2, 2, 0, 1, 0, 16, 1, 1, 1, 1, 1, 1));
    host.submit(Uint32Array.of(2));
    equal(words(await submitAndRead(host, [], 2, 0, 16)), [22, 24, 26, 28], 'y = 2 (y + a)');
    host.dispose();
  },

  'a recorded list is a copy of the words it was given': async ({ GpuHost, gpu }) => {
    const host = await adder(GpuHost, gpu);
    const memory = new WebAssembly.Memory({ initial: 1 });
    const view = new Uint32Array(memory.buffer, 0, 6);
    view.set([1, 1, 1, 1, 1, 1]);
    host.record(3, view);
    memory.grow(1); // detaches the view
    equal(words(await submitAndRead(host, [3], 2, 0, 4)), [11], 'one addition');
    host.dispose();
  },

  'streamed bytes arrive, more of them than the staging ring holds': async ({ GpuHost, gpu }) => {
    const host = await GpuHost.create(gpu);
    const size = 40 << 20;
    host.createBuffer(1, size, STORAGE | COPY_SRC | COPY_DST, 'weights');
    const chunk = new Uint32Array(1 << 18);
    for (let at = 0; at < size; at += chunk.byteLength) {
      chunk.fill(at);
      await host.stream(1, at, new Uint8Array(chunk.buffer));
    }
    for (const at of [0, 17 << 20, size - (1 << 20)]) equal(words(await submitAndRead(host, [], 1, at, 4)), [at], `word at ${at}`);
    host.dispose();
  },

  'an invalid call is caught by the scopes, with its kind, and a valid one is not': async ({ GpuHost, gpu }) => {
    const host = await GpuHost.create(gpu);
    host.pushErrorScopes();
    host.createBuffer(1, 16, STORAGE | 1, 'storage and map-read exclude each other');
    equal(JSON.parse(await host.popErrorScopes()).kind, 'validation', 'kind');
    host.pushErrorScopes();
    host.createBuffer(2, 16, STORAGE, 'fine');
    equal(await host.popErrorScopes(), null, 'no error');
    equal(host.takeError(), undefined, 'nothing outside the scopes');
    host.dispose();
  },

  'a kernel that does not compile is refused with its entry point': async ({ GpuHost, gpu }) => {
    const host = await GpuHost.create(gpu);
    let thrown;
    // Deno reports the module's fault through the scope as well.
    host.pushErrorScopes();
    await host.createPipeline(1, '@compute @workgroup_size(1) fn main() { let x: u32 = 1.5; }', 'main', Uint32Array.of())
      .catch((error) => { thrown = error; });
    await host.popErrorScopes();
    const { code, at, what } = JSON.parse(thrown);
    equal([code, at, what.startsWith('the GPU driver refused a kernel: ')], ['internal', 'main', true], 'error');
    host.dispose();
  },

  'disposing destroys every buffer made here and never the device': async ({ GpuHost, gpu }) => {
    const { gpu: counted, counts } = countGpu(gpu);
    const host = await adder(GpuHost, counted);
    await submitAndRead(host, [], 2, 0, 16);
    host.dispose();
    host.dispose();
    equal([counts.liveBytes, counts.devicesDestroyed], [0, 0], 'live bytes, destroyed devices');
  },

  'the description names the adapter and the limits that a planner reads': async ({ GpuHost, gpu }) => {
    const host = await GpuHost.create(gpu);
    const { limits, features, enableSubgroups } = JSON.parse(host.describe());
    equal(limits.maxStorageBufferBindingSize >= 128 << 20, true, 'binding size at least the default');
    equal(enableSubgroups && !features.includes('subgroups'), false, 'the directive needs the feature');
    equal(host.adapterName().length > 0, true, 'a name');
    host.dispose();
  },
};
