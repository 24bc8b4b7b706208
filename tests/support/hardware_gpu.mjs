// A `gpu` whose adapter does not say that it is simulated, so that `auto` takes it. Runs in a page.

import { changedGpu } from './changed_gpu.mjs';

/** The same GPU under another name. */
export const asHardware = (gpu) => changedGpu(gpu, {
  adapter(adapter) {
    const { subgroupMinSize, subgroupMaxSize } = adapter.info;
    const info = { vendor: 'tests', architecture: 'hardware', device: '', description: '', subgroupMinSize, subgroupMaxSize, isFallbackAdapter: false };
    Object.defineProperty(adapter, 'info', { value: info });
  },
});
