/** Loads the wasm module, once for all engines of a page; one with threads is another module. */

import { chooseBuild } from './builds.js';
import type { Build } from './builds.js';
import { RlxError } from './error.js';
import type { WasmModule } from './wasm.js';
import { Workers } from './workers.js';

/** Where each build is. Bundlers know this form and bring the files along. */
const FILES: { [build in Build]: () => URL } = {
  'rlx': () => new URL('./rlx.wasm', import.meta.url),
  'rlx-relaxed': () => new URL('./rlx-relaxed.wasm', import.meta.url),
  'rlx-threads': () => new URL('./rlx-threads.wasm', import.meta.url),
  'rlx-threads-relaxed': () => new URL('./rlx-threads-relaxed.wasm', import.meta.url),
};

type Started = Pick<WasmModule, 'create'> & { workers?: Workers };
type Kind = 'single' | 'threaded';

const loading: { [kind in Kind]?: Promise<Started> | undefined } = {};

/**
 * A module for engines of `threads` threads or, where no worker starts, fewer. An own `wasmUrl` is
 * of a build without threads. A failed attempt is forgotten, so that the next load tries again.
 */
export async function loadModule(wasmUrl?: string | URL, threads = 1): Promise<WasmModule> {
  const kind = threads > 1 && wasmUrl === undefined ? 'threaded' : 'single';
  const { create, workers } = await (loading[kind] ??= start(kind, wasmUrl).catch((error: unknown) => {
    loading[kind] = undefined;
    throw error;
  }));
  return { create, threads: 1 + (await workers?.atLeast(threads - 1) ?? 0) };
}

async function start(kind: Kind, wasmUrl?: string | URL): Promise<Started> {
  const url = wasmUrl === undefined ? FILES[chooseBuild(kind === 'threaded')]() : new URL(wasmUrl, import.meta.url);
  const from = { module_or_path: readLocal(url) ?? url };
  try {
    // One glue for two builds: scripts/build.mjs sees to it that they have the same exports and imports.
    if (kind === 'single') {
      const { default: init, RlxEngine } = await import('./rlx_wasm.js');
      await init(from);
      return { create: (options, platform, gpu) => new RlxEngine(options, platform, gpu ?? undefined) };
    }
    const { default: init, RlxEngine, sharedModule } = await import('./rlx_wasm_threads.js');
    const { memory } = await init(from);
    return {
      create: (options, platform, gpu) => new RlxEngine(options, platform, gpu ?? undefined),
      workers: new Workers({ module: sharedModule(), memory }),
    };
  } catch (cause) {
    throw new RlxError('io', 'the wasm module did not load', {
      at: url.href,
      hint: 'check that the file is served, and that the browser has WebAssembly with SIMD',
      cause,
    });
  }
}

/** Node's `fetch` reads no files; Node and Deno have this instead. */
function readLocal(url: URL): Uint8Array | undefined {
  if (url.protocol !== 'file:') return undefined;
  type Fs = { readFileSync(path: URL): Uint8Array };
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): unknown } };
  return (process?.getBuiltinModule?.('node:fs') as Fs | undefined)?.readFileSync(url);
}
