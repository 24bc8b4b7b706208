/**
 * The module's builds for networks that are no language models. They have one thread. Only loading a session or an
 * embedder fetches one.
 */

import { chooseBuild } from './builds.js';
import { single } from './wasm_module.js';
import { sessionIn } from './wasm_session.js';
import type { GraphsModule } from './wasm_session.js';

/** Where the best build that runs here is. Bundlers know this form and bring the files along. */
function file(): URL {
  return chooseBuild(false) === 'rlx-relaxed' ? new URL('./rlx-graphs-relaxed.wasm', import.meta.url) : new URL('./rlx-graphs.wasm', import.meta.url);
}

/** A module for one session. A failed attempt is forgotten, so that the next load tries again. */
export async function loadGraphs(wasmUrl?: string | URL): Promise<GraphsModule> {
  const url = wasmUrl === undefined ? file() : new URL(wasmUrl, import.meta.url);
  const { instance, glue, leave } = await single(url, () => import('./rlx_graphs.js'));
  return {
    create: (options, platform, gpu) => sessionIn(instance, () => new glue.RlxSession(options, platform, gpu ?? undefined), leave),
  };
}
