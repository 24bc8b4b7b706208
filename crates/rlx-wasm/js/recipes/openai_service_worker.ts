/**
 * The module of a service worker that answers what its pages ask of OpenAI's interface: `/v1/chat/completions`,
 * `/v1/completions`, `/v1/embeddings` and `/v1/models`. `rlx-wasm/static` imports nothing while it runs, which service
 * workers may not.
 */

import { handle } from 'rlx-wasm/openai';
import type { Served } from 'rlx-wasm/openai';
import { Embedder, Engine } from 'rlx-wasm/static';

/** What TypeScript's types of pages lack. */
interface WorkerEvent extends Event {
  readonly request: Request;
  respondWith(answer: Promise<Response>): void;
  waitUntil(work: Promise<void>): void;
}
declare const clients: { claim(): Promise<void> };

let served: Promise<Served> | undefined;

/** Leave out what your pages do not ask for. A load that failed is tried again by the next request. */
const load = () => served ??= (async () => ({
  engine: await Engine.load({ model: new URL('/model.gguf', location.href) }),
  embedder: await Embedder.load({ model: new URL('/embedder.gguf', location.href) }),
}))().catch((error: unknown) => {
  served = undefined;
  throw error;
});

addEventListener('fetch', (given) => {
  const event = given as WorkerEvent;
  const { origin, pathname } = new URL(event.request.url);
  if (origin === location.origin && pathname.startsWith('/v1/')) event.respondWith(handle(event.request, load()));
});

// The page that registers it is served at once, not when it is opened again.
addEventListener('activate', (event) => (event as WorkerEvent).waitUntil(clients.claim()));
