/** The clock and the scheduler for the wasm module. */

import type { Platform } from './wasm.js';

/**
 * Lets the page draw and handle input. A message is a separate task, without the 4 ms delay of nested timers;
 * `scheduler.yield` would return before the page's own tasks.
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

/** A timer, where a message would be heard before anything is sent or received: in workerd a stream would come all at its end. */
const yieldByTimer = () => new Promise<void>((resolve) => setTimeout(resolve));

const isWorkerd = (globalThis.navigator as Navigator | undefined)?.userAgent === 'Cloudflare-Workers';

export const platform: Platform = {
  now: () => performance.now(),
  yieldToPage: isWorkerd ? yieldByTimer : yieldByMessage,
};
