/** When a submission's kernels began and ended, by the clock of the GPU (the optional feature `timestamp-query`). */

import type { GpuHost } from './gpu_host.js';

/** Most queries of a set. */
const QUERIES = 4096;

// The numbers of GPUBufferUsage and GPUMapMode: npm `webgpu` defines no such globals.
const MODE_READ = 1;
const [MAP_READ, COPY_SRC, COPY_DST, QUERY_RESOLVE] = [0x1, 0x4, 0x8, 0x200];

export class GpuTimes {
  readonly #host: GpuHost;
  readonly #queries: GPUQuerySet;
  readonly #resolved: GPUBuffer;
  readonly #readback: GPUBuffer;

  constructor(host: GpuHost) {
    const { device } = host;
    this.#host = host;
    this.#queries = device.createQuerySet({ type: 'timestamp', count: QUERIES });
    this.#resolved = device.createBuffer({ size: 8 * QUERIES, usage: QUERY_RESOLVE | COPY_SRC, label: 'timestamps' });
    this.#readback = device.createBuffer({ size: 8 * QUERIES, usage: MAP_READ | COPY_DST, label: 'timestamps' });
  }

  /**
   * Submits the host's lists with a pass for each dispatch, at most 2,048, and resolves to begin and end of each, as
   * 64-bit nanoseconds. One call at a time.
   */
  async submit(lists: Uint32Array): Promise<Uint8Array> {
    const { device } = this.#host;
    const encoder = device.createCommandEncoder();
    let used = 0;
    this.#host.encode(encoder, lists, () => {
      used += 2;
      return { timestampWrites: { querySet: this.#queries, beginningOfPassWriteIndex: used - 2, endOfPassWriteIndex: used - 1 } };
    });
    const bytes = 8 * used;
    encoder.resolveQuerySet(this.#queries, 0, used, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, this.#readback, 0, bytes);
    device.queue.submit([encoder.finish()]);
    try {
      await this.#readback.mapAsync(MODE_READ, 0, bytes);
    } catch (cause) {
      // Rust reads the same JSON that it throws.
      throw JSON.stringify({ code: 'device_lost', what: `the times of kernels could not be read: ${cause}`, at: '', hint: 'open the model again' });
    }
    const times = new Uint8Array(this.#readback.getMappedRange(0, bytes)).slice();
    this.#readback.unmap();
    return times;
  }

  dispose(): void {
    this.#queries.destroy();
    this.#resolved.destroy();
    this.#readback.destroy();
  }
}
