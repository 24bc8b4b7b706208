// A GPU whose driver computes wrong values: shaders are changed on their way to its compiler. Runs in
// a page.

import { changedGpu } from './changed_gpu.mjs';

/**
 * A `gpu` to inject; `changes` are pairs of texts, of which shaders get the second for the first;
 * `limits` are what its devices say instead of theirs.
 */
export function faultyGpu(gpu, changes, limits = {}) {
  return changedGpu(gpu, {
    device(device) {
      const get = (of, name) => limits[name] ?? of[name];
      Object.defineProperty(device, 'limits', { configurable: true, value: new Proxy(device.limits, { get }) });
      const create = device.createShaderModule.bind(device);
      device.createShaderModule = ({ code, ...rest }) =>
        create({ ...rest, code: changes.reduce((text, [from, to]) => text.replaceAll(from, to), code) });
    },
  });
}
