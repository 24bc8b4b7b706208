/** A tab's side of `shared_worker.ts`. Where there are no shared workers, as on some phones, the tab has its own engine. */

import { Engine } from 'rlx-wasm';

export async function engineOfAllTabs(): Promise<Engine> {
  if (typeof SharedWorker === 'undefined') return Engine.load({ model: '/model.gguf' });
  const { port } = new SharedWorker(new URL('./shared_worker.js', import.meta.url), { type: 'module' });
  // `dispose` ends this tab's calls alone.
  return Engine.connect(port);
}
