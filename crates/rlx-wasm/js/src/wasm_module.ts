/** Loads the wasm module, once for all engines of a page. */

import { chooseBuild } from './builds.js';
import type { Build } from './builds.js';
import { RlxError } from './error.js';
import type { WasmModule } from './wasm.js';

/** Where each build is. Bundlers know this form and bring the files along. */
const FILES: { [build in Build]: () => URL } = {
  'rlx': () => new URL('./rlx.wasm', import.meta.url),
  'rlx-relaxed': () => new URL('./rlx-relaxed.wasm', import.meta.url),
};

let loading: Promise<WasmModule> | undefined;

/** A failed attempt is forgotten, so that the next load tries again. */
export function loadModule(wasmUrl?: string | URL): Promise<WasmModule> {
  loading ??= start(wasmUrl).catch((error: unknown) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

async function start(wasmUrl?: string | URL): Promise<WasmModule> {
  // One for both builds: scripts/build.mjs sees to it that they have the same exports and imports.
  const { default: init, RlxEngine } = await import('./rlx_wasm.js');
  const url = wasmUrl === undefined ? FILES[chooseBuild()]() : new URL(wasmUrl, import.meta.url);
  try {
    await init({ module_or_path: readLocal(url) ?? url });
    return {
      create: (options, platform, gpu) => new RlxEngine(options, platform, gpu ?? undefined),
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
