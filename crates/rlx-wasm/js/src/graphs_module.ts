/**
 * The module's builds for networks that are no language models. They have one thread. Only loading a session or an
 * embedder fetches one.
 */

import { chooseBuild } from './builds.js';
import type { WasmSource } from './types.js';
import { single } from './wasm_module.js';
import { sessionIn } from './wasm_session.js';
import type { GraphsModule } from './wasm_session.js';

/** As in `lazy.ts`; a chat's worker does not know of it. */
export const lazyGraphs = { glue: () => import('./rlx_graphs.js') };

/** Where the best build that runs here is. Bundlers know this form and bring the files along. */
function file(): URL {
  return chooseBuild(false) === 'rlx-relaxed' ? new URL('./rlx-graphs-relaxed.wasm', import.meta.url) : new URL('./rlx-graphs.wasm', import.meta.url);
}

/** A module for one session. A failed attempt is forgotten, so that the next load tries again. */
export async function loadGraphs(wasm: WasmSource = file()): Promise<GraphsModule> {
  const { instance, glue, leave } = await single(wasm, lazyGraphs.glue);
  return {
    create: (options, platform, gpu) => sessionIn(instance, () => new glue.RlxSession(options, platform, gpu ?? undefined), leave),
  };
}
