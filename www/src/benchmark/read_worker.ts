/** One thread that reads: it is told how many bytes, then for how long, and answers with how many bytes it read. */

import { reader } from './reads.js';

export type ToReader = { bytes: number } | { ms: number };
export type FromReader = { ready: true } | { read: number; ms: number } | { failed: string };

const tell = postMessage as (message: FromReader) => void;
let own: Awaited<ReturnType<typeof reader>> | undefined;

addEventListener('message', ({ data }: MessageEvent<ToReader>) => void hear(data));

async function hear(asked: ToReader): Promise<void> {
  try {
    if ('bytes' in asked) {
      own = await reader(asked.bytes);
      own.read(); // compiled, and in caches as far as it fits
      return tell({ ready: true });
    }
    const begun = performance.now();
    let [read, ms] = [0, 0];
    // Small shares are read many times between two looks at the clock, which may be coarse.
    const times = Math.max(1, Math.floor(16e6 / own!.bytes));
    while (ms < asked.ms) {
      for (let i = 0; i < times; i++) own!.read();
      read += times * own!.bytes;
      ms = performance.now() - begun;
    }
    tell({ read, ms });
  } catch (error) {
    tell({ failed: error instanceof Error ? error.message : String(error) });
  }
}
