// Counts from outside what an engine does with WebGPU: wraps the methods of the device that an
// injected `gpu` hands out. Runs in a page, in Node and in Deno.

import { changedGpu } from './changed_gpu.mjs';

/** A `gpu` to inject and the counts of everything done through it. */
export function countGpu(gpu) {
  const counts = {
    dispatches: 0, submits: 0, mappedBytes: 0, writtenBytes: 0,
    createdBytes: 0, destroyedBytes: 0, liveBytes: 0, liveBuffers: 0, peakBytes: 0, devicesDestroyed: 0,
  };
  return { gpu: changedGpu(gpu, { device: (device) => countDevice(device, counts) }), counts };
}

function after(object, method, note) {
  const original = object[method].bind(object);
  object[method] = (...args) => {
    const result = original(...args);
    return note(result, ...args) ?? result;
  };
}

function countDevice(device, counts) {
  after(device, 'createBuffer', (buffer, { size }) => {
    counts.createdBytes += size;
    counts.liveBytes += size;
    counts.liveBuffers += 1;
    counts.peakBytes = Math.max(counts.peakBytes, counts.liveBytes);
    let live = true;
    after(buffer, 'destroy', () => {
      if (!live) return;
      live = false;
      counts.destroyedBytes += size;
      counts.liveBytes -= size;
      counts.liveBuffers -= 1;
    });
    after(buffer, 'mapAsync', (_, _mode, offset = 0, bytes = size - offset) => {
      counts.mappedBytes += bytes;
    });
  });
  after(device, 'createCommandEncoder', (encoder) => {
    after(encoder, 'beginComputePass', (pass) => {
      for (const method of ['dispatchWorkgroups', 'dispatchWorkgroupsIndirect']) {
        after(pass, method, () => {
          counts.dispatches += 1;
        });
      }
    });
  });
  const { queue } = device;
  after(queue, 'submit', (_, buffers) => {
    // An empty submit only flushes; it runs nothing.
    if (buffers.length > 0) counts.submits += 1;
  });
  after(queue, 'writeBuffer', (_, _buffer, _offset, data, from = 0, size = data.byteLength - from) => {
    counts.writtenBytes += size;
  });
  after(device, 'destroy', () => {
    counts.devicesDestroyed += 1;
  });
  return device;
}
