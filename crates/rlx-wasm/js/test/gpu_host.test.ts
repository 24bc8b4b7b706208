/** What the host makes of a device that fails: the rest of it needs a GPU, and is tested on one. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GpuHost, STAGING_BYTES } from '../src/gpu_host.js';

/** A `gpu` whose device answers `workDone` as it is told, and whose compiler takes the texts that it is told. */
function fakeGpu(workDone: () => Promise<undefined>, info: object = {}, compiles = (_: string) => false): GPU {
  let failed: object | null = null;
  const queue = { submit: () => {}, writeBuffer: () => {}, onSubmittedWorkDone: workDone };
  const device = {
    queue,
    lost: new Promise(() => {}),
    limits: {},
    features: new Set(),
    createBuffer: () => ({ destroy: () => {} }),
    pushErrorScope: () => { failed = null; },
    createShaderModule: ({ code }: { code: string }) => { failed = compiles(code) ? null : { message: 'no' }; },
    popErrorScope: async () => failed,
  };
  const adapter = { features: new Set(), limits: {}, info, requestDevice: async () => device };
  return { requestAdapter: async () => adapter } as unknown as GPU;
}

test('a device that is lost while weights stream is told to whoever streams, and to nobody else', async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  process.on('unhandledRejection', note);
  try {
    const host = await GpuHost.create(fakeGpu(() => Promise.reject(new Error('the device was lost'))));
    host.createBuffer(1, STAGING_BYTES, 0, 'weights');
    const turn = () => new Promise((resolve) => setTimeout(resolve, 1));
    // There is room for all of it: nobody waits for what is on its way.
    await host.stream(1, 0, new Uint8Array(STAGING_BYTES));
    await turn();
    assert.deepEqual(unhandled, []);
    await assert.rejects(host.stream(1, 0, new Uint8Array(1024)), /the device was lost/);
    await turn();
    assert.deepEqual(unhandled, []);
  } finally {
    process.off('unhandledRejection', note);
  }
});

test('a GPU in software is known by its mark or its name, and is taken only where it may be', async () => {
  const done = () => Promise.resolve(undefined);
  for (const info of [
    { vendor: 'google', architecture: 'swiftshader' },
    { description: 'llvmpipe (LLVM 15.0.6, 256 bits)' },
    { device: 'Microsoft Basic Render Driver' },
    { vendor: 'acme', isFallbackAdapter: true },
  ]) {
    await assert.rejects(GpuHost.create(fakeGpu(done, info), { software: false }), { code: 'device_unavailable', what: /simulated by the processor/ });
    await GpuHost.create(fakeGpu(done, info));
  }
  for (const info of [{}, { vendor: 'nvidia', architecture: 'hopper', isFallbackAdapter: false }, { description: 'Intel(R) UHD Graphics 620' }]) {
    assert.ok(await GpuHost.create(fakeGpu(done, info), { software: false }));
  }
});

test('shaders begin as their compiler takes subgroups, which not every one knows by the directive', async () => {
  const done = () => Promise.resolve(undefined);
  const directive = (code: string) => code.startsWith('enable subgroups;');
  const wide = { subgroupMinSize: 32, subgroupMaxSize: 64 };
  for (const [compiles, info, described] of [
    [directive, wide, { enableSubgroups: true, subgroupMinSize: 32, subgroupMaxSize: 64 }],
    [(code: string) => !directive(code), wide, { enableSubgroups: false, subgroupMinSize: 32, subgroupMaxSize: 64 }],
    // A browser that does not say how wide they are.
    [directive, {}, { enableSubgroups: true, subgroupMinSize: 4, subgroupMaxSize: 128 }],
    [() => false, wide, { enableSubgroups: false, subgroupMinSize: 0, subgroupMaxSize: 0 }],
  ] as const) {
    const host = await GpuHost.create(fakeGpu(done, info, compiles));
    const { enableSubgroups, subgroupMinSize, subgroupMaxSize } = JSON.parse(host.describe());
    assert.deepEqual({ enableSubgroups, subgroupMinSize, subgroupMaxSize }, described);
  }
});
