// A `gpu` whose work takes next to no time by the page's clock, which goes slowly while it works. Runs in a page.

import { changedGpu } from './changed_gpu.mjs';

/** How much of the time passes while the GPU works. */
const SHARE = 1e-4;

/** The same GPU; `performance.now` of the page is another from here on. */
export function asFastGpu(gpu) {
  const now = performance.now.bind(performance);
  let [at, shown, working] = [now(), now(), 0];
  const show = () => {
    const real = now();
    shown += (real - at) * (working > 0 ? SHARE : 1);
    at = real;
    return shown;
  };
  performance.now = show;
  const during = (work) => async (...args) => {
    show();
    working += 1;
    try {
      return await work(...args);
    } finally {
      show();
      working -= 1;
    }
  };
  return changedGpu(gpu, {
    device(device) {
      const create = device.createBuffer.bind(device);
      // Every step's token is read back: mapping is how the page waits for the GPU.
      device.createBuffer = (descriptor) => {
        const buffer = create(descriptor);
        buffer.mapAsync = during(buffer.mapAsync.bind(buffer));
        return buffer;
      };
    },
  });
}
