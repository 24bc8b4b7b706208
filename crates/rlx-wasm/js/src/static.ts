/**
 * The entry `rlx-wasm/static`: the same package, with every module imported from the start, for places that may not
 * import while they run.
 */

import * as cache from './cache.js';
import * as directory from './directory.js';
import * as disk from './disk.js';
import * as hub from './hub.js';
import { lazy } from './lazy.js';
import * as listing from './listing.js';
import * as local from './local.js';
import { lazyGraphs } from './graphs_module.js';
import * as graphsGlue from './rlx_graphs.js';
import * as glue from './rlx_wasm.js';
import * as threadsGlue from './rlx_wasm_threads.js';
import * as stream from './stream_source.js';
import * as tuning from './tuning.js';

const all: { [name in keyof typeof lazy]: Awaited<ReturnType<(typeof lazy)[name]>> } = {
  local, tuning, cache, glue, threadsGlue, hub, listing, directory, disk, stream,
};
for (const [name, module] of Object.entries(all)) Object.assign(lazy, { [name]: async () => module });
lazyGraphs.glue = async () => graphsGlue;

export * from './index.js';
