/** The clock and the scheduler that the wasm module is given. */

import type { Platform } from './wasm.js';

/**
 * Lets the page draw and handle input. A message is a task of its own without the 4 ms that
 * nested timers are held back; `scheduler.yield` would come back ahead of the page's own tasks.
 */
function yieldByMessage(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(0);
  });
}

export const platform: Platform = {
  now: () => performance.now(),
  yieldToPage: yieldByMessage,
};
