/**
 * Modules that are fetched when they are first needed. Service workers and extensions' backgrounds may not import
 * while they run: `static.ts` brings all of these along.
 */

export const lazy = {
  local: () => import('./local.js'),
  tuning: () => import('./tuning.js'),
  cache: () => import('./cache.js'),
  glue: () => import('./rlx_wasm.js'),
  threadsGlue: () => import('./rlx_wasm_threads.js'),
  hub: () => import('./hub.js'),
  listing: () => import('./listing.js'),
  directory: () => import('./directory.js'),
  disk: () => import('./disk.js'),
  stream: () => import('./stream_source.js'),
};
