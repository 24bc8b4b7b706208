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

declare const setImmediate: typeof setTimeout | undefined;

const isWorkerd = (globalThis.navigator as Navigator | undefined)?.userAgent === 'Cloudflare-Workers';

/** Deno, Bun and workerd hear messages before they read and write, so that a stream would be sent all at its end. */
const turn = typeof setImmediate === 'function' ? setImmediate : isWorkerd ? setTimeout : undefined;

export const platform: Platform = {
  now: () => performance.now(),
  yieldToPage: turn ? () => new Promise((resolve) => turn(resolve)) : yieldByMessage,
};
