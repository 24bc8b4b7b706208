/** A web worker of the CPU's pool: its own instance of the page's module, on the same memory. */

import instantiate from './rlx_wasm_threads.js';
import type { FromWorker, Shared } from './workers.js';

addEventListener('message', ({ data }: MessageEvent<Shared>) => void join(data), { once: true });

const tell = postMessage as (message: FromWorker) => void;

async function join({ module, memory }: Shared): Promise<void> {
  let panic = '';
  const panicked = (message: string) => {
    panic ||= message;
  };
  const { init, joinPool } = instantiate({ guard: (exports) => exports, panicked });
  await init({ module_or_path: module, memory });
  tell({ ready: true });
  try {
    joinPool(); // stays
  } catch (trap) {
    // The page works on the run in slices, so it gets this message and ends everything that shares this memory.
    tell({ trap: panic || String((trap as Error).message) });
  }
}
