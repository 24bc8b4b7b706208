/** A web worker of the CPU's pool: its own instance of the page's module, on the same memory. */

import init, { breakUp, joinPool } from './rlx_wasm_threads.js';
import type { Shared } from './workers.js';

addEventListener('message', ({ data }: MessageEvent<Shared>) => void join(data), { once: true });

async function join({ module, memory }: Shared): Promise<void> {
  await init({ module_or_path: module, memory });
  (postMessage as (message: string) => void)('ready');
  try {
    joinPool(); // stays
  } catch (trap) {
    breakUp();
    throw trap;
  }
}
