/**
 * The entry `rlx-wasm/static`: the same package, with every module imported from the start, for places that may not
 * import while they run.
 */

import * as contest from './contest.js';
import * as directory from './directory.js';
import * as disk from './disk.js';
import * as estimate from './estimate.js';
import { lazyGrammar } from './grammar_module.js';
import { lazyGraphs } from './graphs_module.js';
import * as hub from './hub.js';
import { lazy } from './lazy.js';
import { lazyHere } from './lazy_here.js';
import * as listing from './listing.js';
import * as local from './local.js';
import * as models from './models.js';
import * as held from './openai/held.js';
import * as grammarGlue from './rlx_grammar.js';
import * as slide from './openai/slide.js';
import * as graphsGlue from './rlx_graphs.js';
import * as glue from './rlx_wasm.js';
import * as threadsGlue from './rlx_wasm_threads.js';
import * as store from './store.js';
import * as stream from './stream_source.js';
import * as tuning from './tuning.js';

type Modules<T> = { [name in keyof T]-?: T[name] extends ((...args: never) => Promise<infer M>) | undefined ? M : never };

function bring<T extends object>(into: T, modules: Modules<T>): void {
  for (const [name, module] of Object.entries(modules)) Object.assign(into, { [name]: async () => module });
}

bring(lazy, { glue, threadsGlue, hub, listing, directory, contest, held, slide, disk, stream });
bring(lazyHere, { local, tuning, estimate, store, models });
bring(lazyGraphs, { glue: graphsGlue });
bring(lazyGrammar, { glue: grammarGlue });

export * from './index.js';
