/**
 * The module's build for networks that are no language models. It has one thread, and is fetched when a
 * session or an embedder is loaded, and by nothing else.
 */

import { single } from './wasm_module.js';
import { sessionIn } from './wasm_session.js';
import type { GraphsModule } from './wasm_session.js';

/** A module for one session. A failed attempt is forgotten, so that the next load tries again. */
export async function loadGraphs(wasmUrl?: string | URL): Promise<GraphsModule> {
  // Bundlers know this form and bring the file along.
  const url = wasmUrl === undefined ? new URL('./rlx-graphs.wasm', import.meta.url) : new URL(wasmUrl, import.meta.url);
  const { instance, glue, leave } = await single(url, () => import('./rlx_graphs.js'));
  return {
    create: (options, platform, gpu) => sessionIn(instance, () => new glue.RlxSession(options, platform, gpu ?? undefined), leave),
  };
}
