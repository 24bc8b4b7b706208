/** The two places of an engine: this thread, and the other side of a port. What both do alike is tested in both. */

import type { Running } from '../src/bring.js';
import type { Core } from '../src/core.js';
import { connect } from '../src/in_worker.js';
import { LocalEngine } from '../src/local.js';
import { serve } from '../src/serve.js';
import type { LoadOptions } from '../src/types.js';
import type { FakeEngine } from './fakes.js';

export interface Place {
  name: string;
  /** An engine there on a fake model, which its user owns. */
  engine(wasm: FakeEngine): Promise<Core>;
}

/** An engine of this thread on a fake model. */
export function local(wasm: FakeEngine): LocalEngine {
  // Only `load` may make one, which needs the wasm module.
  const Made = LocalEngine as unknown as new (running: Running, options: LoadOptions) => LocalEngine;
  return new Made({ wasm, host: null }, { model: 'a.gguf' });
}

export const PLACES: Place[] = [
  { name: 'here', engine: async (wasm) => local(wasm) },
  {
    name: 'behind a port',
    engine: (wasm) => {
      const { port1, port2 } = new MessageChannel();
      serve(port2, async () => local(wasm));
      return connect(port1);
    },
  },
];
