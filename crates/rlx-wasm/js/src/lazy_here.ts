/**
 * Modules as in `lazy.ts`, that are needed in the calling thread alone. Bundlers put into a worker whatever it might
 * import, so the engine's worker does not know of them.
 */

import { lazy } from './lazy.js';

lazy.disk = () => import('./disk.js');
lazy.stream = () => import('./stream_source.js');

export const lazyHere = {
  local: () => import('./local.js'),
  tuning: () => import('./tuning.js'),
  estimate: () => import('./estimate.js'),
  store: () => import('./store.js'),
  models: () => import('./models.js'),
};
