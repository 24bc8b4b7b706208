/** The two places of an engine: this thread, and the other side of a port. What both do alike is tested in both. */

import type { Running } from '../src/bring.js';
import type { Core } from '../src/core.js';
import { LocalEngine } from '../src/local.js';
import { RemoteEngine } from '../src/remote.js';
import { serve } from '../src/serve.js';
import type { LoadOptions } from '../src/types.js';
import type { FakeEngine } from './fakes.js';

export interface Place {
  name: string;
  /** An engine there on a fake model, which its user owns. */
  engine(wasm: FakeEngine, onLost?: LoadOptions['onLost']): Promise<Core>;
}

/** An engine of this thread on a fake model. */
export function local(wasm: FakeEngine, onLost?: LoadOptions['onLost']): LocalEngine {
  // Only `load` may make one, which needs the wasm module.
  const Made = LocalEngine as unknown as new (running: Running, options: LoadOptions) => LocalEngine;
  return new Made({ wasm, host: null }, { model: 'a.gguf', ...(onLost && { onLost }) });
}

export const PLACES: Place[] = [
  { name: 'here', engine: async (wasm, onLost) => local(wasm, onLost) },
  {
    name: 'behind a port',
    engine: async (wasm, onLost) => {
      const { port1, port2 } = new MessageChannel();
      serve(port2, async (options) => local(wasm, options.onLost));
      await new Promise((resolve) => {
        port1.onmessage = resolve;
      });
      const engine = new RemoteEngine(port1, { onLost, keep: () => {}, close: () => {} });
      await engine.load({ model: 'a.gguf' }, {});
      return engine;
    },
  },
];
