// The GPU host in Chromium, and what it says where there is no WebGPU.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { cases } from '../support/gpu_host_cases.mjs';
import { launch, mounts, openPage, startServer } from './harness.mjs';

let server, browser, page;
before(async () => {
  server = await startServer({ mounts });
  browser = await launch();
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

for (const name of Object.keys(cases)) {
  test(`Chromium: ${name}`, () => page.evaluate(async (name) => {
    const [{ GpuHost }, { cases }] = await Promise.all([import('/dist/gpu_host.js'), import('/support/gpu_host_cases.mjs')]);
    await cases[name]({ GpuHost, gpu: navigator.gpu });
  }, name));
}

test('a browser without WebGPU is device_unavailable, with what to do', async () => {
  const without = await launch({ webgpu: false });
  try {
    const { page } = await openPage(without, `${server.url}/pages/empty.html`);
    const error = await page.evaluate(async () => {
      const { GpuHost } = await import('/dist/gpu_host.js');
      return GpuHost.create(navigator.gpu).then(() => null, ({ code, what, hint }) => ({ code, what, hint }));
    });
    assert.equal(error?.code, 'device_unavailable');
    assert.match(error.what, /^(this browser has no WebGPU|WebGPU has no adapter for this machine)$/);
    assert.equal(error.hint, "use a browser with WebGPU, or device: 'cpu'");
  } finally {
    await without.close();
  }
});
