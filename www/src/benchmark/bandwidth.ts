/** How fast the processor reads memory, with as many threads as an executor has. */

import type { Bandwidth } from './types.js';
import type { FromReader, ToReader } from './read_worker.js';

/** Most bytes that are read in turns: more than caches hold, and little enough for a phone. */
const MOST_BYTES = 256e6;
const MS = 200;
/** The fastest of some measurements counts: others have their turns on a processor. */
const ROUNDS = 3;

/**
 * Reads as many bytes as the weights of a model have, again and again as decoding does: what stays in the processor's
 * caches then stays there here too. Each thread reads its own share.
 */
export async function readRate(weights: number, threads: number, signal: AbortSignal): Promise<Bandwidth> {
  const workers: Worker[] = [];
  const end = () => workers.forEach((each) => each.terminate());
  try {
    const ask = (worker: Worker, message: ToReader) =>
      new Promise<FromReader>((resolve, reject) => {
        worker.onmessage = ({ data }: MessageEvent<FromReader>) =>
          'failed' in data ? reject(new Error(data.failed)) : resolve(data);
        worker.onerror = () => reject(new Error('a worker that reads memory did not start'));
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        worker.postMessage(message);
      });
    const all = (message: ToReader) => Promise.all(workers.map((each) => ask(each, message)));
    for (let i = 0; i < threads; i++)
      workers.push(new Worker(new URL('./read_worker.ts', import.meta.url), { type: 'module' }));
    signal.throwIfAborted();
    await all({ bytes: Math.min(weights, MOST_BYTES) / threads });
    let most = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const reads = await all({ ms: MS });
      most = Math.max(
        most,
        reads.reduce((sum, each) => sum + ('read' in each ? each.read / each.ms : 0), 0),
      );
    }
    return { bytes_per_s: most * 1000, how: 'wasm reads of as many bytes as the weights have', threads };
  } finally {
    end();
  }
}
