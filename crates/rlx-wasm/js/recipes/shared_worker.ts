/** The module of a shared worker: one engine for all tabs of an origin. It ends with the last tab. */

import { Engine } from 'rlx-wasm';

let engine: Promise<Engine> | undefined;

/** A load that failed is tried again by the next tab. */
const load = () => engine ??= Engine.load({ model: new URL('/model.gguf', location.href) }).catch((error: unknown) => {
  engine = undefined;
  throw error;
});

addEventListener('connect', (event) => {
  for (const port of (event as MessageEvent).ports) Engine.serve(port, load());
});
