/**
 * Gives engines instances of the wasm module.
 *
 * An engine on the GPU or on one thread has an instance of its own, so that a trap ends no other engine, and
 * one engine's memory is no other's. An instance costs 1.5 MB beside what its engine needs, and its code is
 * the module's, compiled once. Wasm memory never shrinks, so an instance that an engine has left is kept for
 * the next one.
 *
 * Engines of several threads share one instance: workers belong to its memory, and each has a stack and
 * a JavaScript heap of its own. There a trap ends all of them, and the next engine has new workers.
 */

import { chooseBuild } from './builds.js';
import type { Build } from './builds.js';
import { RlxError } from './error.js';
import { Instance } from './instance.js';
import type { Around, Glue } from './rlx_wasm.js';
import type { WasmModule } from './wasm.js';
import { Workers } from './workers.js';

/** Where each build is. Bundlers know this form and bring the files along. */
const FILES: { [build in Build]: () => URL } = {
  'rlx': () => new URL('./rlx.wasm', import.meta.url),
  'rlx-relaxed': () => new URL('./rlx-relaxed.wasm', import.meta.url),
  'rlx-threads': () => new URL('./rlx-threads.wasm', import.meta.url),
  'rlx-threads-relaxed': () => new URL('./rlx-threads-relaxed.wasm', import.meta.url),
};

/** An instance that is ready, and its glue. */
interface Started<G = Glue> {
  instance: Instance;
  glue: G;
}

/** The glue's own module. */
interface GlueModule<G> {
  default: (around: Around) => G & { init(options: { module_or_path: WebAssembly.Module }): Promise<unknown> };
}

interface Threaded extends Started {
  workers: Workers;
}

/** By address: the compiled module, and the instance that an engine has left. */
const modules = new Map<string, Promise<WebAssembly.Module>>();
const idle = new Map<string, Started<unknown>>();
let threaded: Promise<Threaded> | undefined;

/**
 * A module for one engine of `threads` threads or, where no worker starts, fewer. An own `wasmUrl` is
 * of a build without threads. A failed attempt is forgotten, so that the next load tries again.
 */
export async function loadModule(wasmUrl?: string | URL, threads = 1): Promise<WasmModule> {
  if (threads > 1 && wasmUrl === undefined) {
    const { workers, ...started } = await (threaded ??= startThreaded(FILES[chooseBuild(true)]()));
    return { threads: 1 + await workers.atLeast(threads - 1), create: creator(started, () => {}) };
  }
  const url = wasmUrl === undefined ? FILES[chooseBuild(false)]() : new URL(wasmUrl, import.meta.url);
  const { leave, ...started } = await single(url, () => import('./rlx_wasm.js'));
  return { threads: 1, create: creator(started, leave) };
}

/** An instance of one thread of the build at an address: one that was left, or a new one. `leave` makes it one that was. */
export async function single<G>(url: URL, bringGlue: () => Promise<GlueModule<G>>): Promise<Started<G> & { leave: () => void }> {
  // A build has one glue.
  const left = idle.get(url.href) as Started<G> | undefined;
  idle.delete(url.href);
  const started = left ?? await startSingle(url, bringGlue);
  return { ...started, leave: () => idle.set(url.href, started) };
}

function creator({ instance, glue: { RlxEngine } }: Started, onLeave: () => void): WasmModule['create'] {
  return (options, platform, gpu) => instance.engine(() => new RlxEngine(options, platform, gpu ?? undefined), onLeave);
}

function startSingle<G>(url: URL, bringGlue: () => Promise<GlueModule<G>>): Promise<Started<G>> {
  return start(url, async (module) => {
    const { default: instantiate } = await bringGlue();
    const instance = new Instance();
    const glue = instantiate(instance);
    await glue.init({ module_or_path: module });
    return { instance, glue };
  });
}

function startThreaded(url: URL): Promise<Threaded> {
  let workers: Workers | undefined;
  const forget = () => {
    if (threaded === starting) threaded = undefined;
  };
  const starting = start(url, async (module) => {
    const { default: instantiate } = await import('./rlx_wasm_threads.js');
    const instance = new Instance(() => {
      forget();
      workers?.end();
    });
    const glue = instantiate(instance);
    const { memory } = await glue.init({ module_or_path: module });
    workers = new Workers({ module, memory }, (trap) => instance.stop(trap));
    return { instance, glue, workers };
  });
  starting.catch(forget);
  return starting;
}

async function start<T extends Started<unknown>>(url: URL, instantiate: (module: WebAssembly.Module) => Promise<T>): Promise<T> {
  try {
    const started = await instantiate(await compiled(url));
    if (started.instance.stopped) throw started.instance.stopped;
    return started;
  } catch (cause) {
    if (cause instanceof RlxError) throw cause;
    throw new RlxError('io', 'the wasm module did not load', {
      at: url.href,
      hint: 'check that the file is served, and that the browser has WebAssembly with SIMD',
      cause,
    });
  }
}

/** The module at an address, fetched and compiled once. */
function compiled(url: URL): Promise<WebAssembly.Module> {
  let module = modules.get(url.href);
  if (!module) {
    module = compile(url);
    modules.set(url.href, module);
    module.catch(() => modules.delete(url.href));
  }
  return module;
}

async function compile(url: URL): Promise<WebAssembly.Module> {
  const local = readLocal(url);
  if (local) return WebAssembly.compile(local);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`the server answered ${response.status} ${response.statusText}`);
  // A browser compiles nothing of another type as it arrives, but takes its bytes.
  const typed = response.headers.get('content-type') === 'application/wasm';
  return typed ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}

/** Node's `fetch` reads no files; Node and Deno have this instead. */
function readLocal(url: URL): Uint8Array<ArrayBuffer> | undefined {
  if (url.protocol !== 'file:') return undefined;
  type Fs = { readFileSync(path: URL): Uint8Array<ArrayBuffer> };
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): unknown } };
  return (process?.getBuiltinModule?.('node:fs') as Fs | undefined)?.readFileSync(url);
}
