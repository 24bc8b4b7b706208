/** A module worker that runs engines: one for each port that a page connects. */

import { borrow } from './kept.js';
import { LocalEngine } from './local.js';
import { serve } from './serve.js';
import type { Connect } from './wire.js';

addEventListener('message', ({ data, ports: [port] }: MessageEvent<Partial<Connect> | null>) => {
  // A worker of one's own has messages of its own.
  if (data?.rlx !== 'connect' || !port) return;
  serve(port, (options, lent, keep) => {
    borrow(lent, keep);
    return LocalEngine.load(options);
  });
});
