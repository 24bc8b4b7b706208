/**
 * Modules that are fetched when they are first needed. Service workers and extensions' backgrounds may not import
 * while they run: `static.ts` brings all of these along.
 */

export const lazy: Lazy = {
  glue: () => import('./rlx_wasm.js'),
  threadsGlue: () => import('./rlx_wasm_threads.js'),
  hub: () => import('./hub.js'),
  listing: () => import('./listing.js'),
  directory: () => import('./directory.js'),
  held: () => import('./openai/held.js'),
  contest: () => import('./contest.js'),
  slide: () => import('./openai/slide.js'),
};

interface Lazy {
  glue(): Promise<typeof import('./rlx_wasm.js')>;
  threadsGlue(): Promise<typeof import('./rlx_wasm_threads.js')>;
  hub(): Promise<typeof import('./hub.js')>;
  listing(): Promise<typeof import('./listing.js')>;
  directory(): Promise<typeof import('./directory.js')>;
  held(): Promise<typeof import('./openai/held.js')>;
  contest(): Promise<typeof import('./contest.js')>;
  slide(): Promise<typeof import('./openai/slide.js')>;
  /** For files of the calling thread alone: see `lazy_here.ts`. */
  disk?(): Promise<typeof import('./disk.js')>;
  stream?(): Promise<typeof import('./stream_source.js')>;
}
