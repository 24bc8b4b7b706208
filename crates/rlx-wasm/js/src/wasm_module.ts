/**
 * Gives engines instances of the wasm module.
 *
 * An engine on the GPU or with one thread has its own instance, so that a trap ends no other engine, and engines
 * share no memory. An instance costs 1.5 MB besides its engine's memory; its code is compiled once for the
 * module. Wasm memory never shrinks, so an instance that an engine has left is kept for the next one.
 *
 * Engines with several threads share one instance, because workers belong to its memory, and each has its own
 * stack and JavaScript heap. There a trap ends all these engines, and the next engine starts new workers.
 */

import { builtin } from './address.js';
import { chooseBuild } from './builds.js';
import type { Build } from './builds.js';
import { RlxError } from './error.js';
import { Instance } from './instance.js';
import { lazy } from './lazy.js';
import type { Around, Glue } from './rlx_wasm.js';
import type { WasmSource } from './types.js';
import type { WasmModule } from './wasm.js';
import { Workers } from './workers.js';

/** The address of each build. Bundlers know this form and include the files. */
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

/** What the glue answers once the module is there. */
interface Initialised {
  memory: WebAssembly.Memory;
}

interface Threaded extends Started {
  workers: Workers;
}

/** Where a build is from. */
type From = Exclude<WasmSource, string>;

/** Values by where a build is from: by the address, or by the object that was given. */
class Sources<T> {
  readonly #byAddress = new Map<string, T>();
  readonly #given = new WeakMap<object, T>();

  get(from: From): T | undefined {
    return from instanceof URL ? this.#byAddress.get(from.href) : this.#given.get(from);
  }

  set(from: From, value: T): void {
    if (from instanceof URL) this.#byAddress.set(from.href, value);
    else this.#given.set(from, value);
  }

  delete(from: From): void {
    if (from instanceof URL) this.#byAddress.delete(from.href);
    else this.#given.delete(from);
  }
}

/** The compiled modules by where they are from, each with the instance that an engine has left. */
const modules = new Sources<Promise<WebAssembly.Module>>();
let idle = new Sources<Started<unknown>>();
let threaded: Promise<Threaded> | undefined;

/**
 * A module for an engine with `threads` threads, or fewer if workers do not start. A given build must be one
 * without threads. A failed attempt is forgotten, so that the next load tries again.
 */
export async function loadModule(wasm?: WasmSource, threads = 1): Promise<WasmModule> {
  if (threads > 1 && wasm === undefined) {
    const { workers, ...started } = await (threaded ??= startThreaded(FILES[chooseBuild(true)]()));
    return { threads: 1 + await workers.atLeast(threads - 1), create: creator(started, () => {}) };
  }
  const { leave, ...started } = await single(wasm ?? FILES[chooseBuild(false)](), lazy.glue);
  return { threads: 1, create: creator(started, leave) };
}

/** Gives up the instances that engines have left, with their memory. */
export function forgetIdle(): void {
  idle = new Sources();
}

/** A single-threaded instance of a build: one that an engine has left, or a new one. `leave` gives it back. */
export async function single<G>(wasm: WasmSource, bringGlue: () => Promise<GlueModule<G>>): Promise<Started<G> & { leave: () => void }> {
  // All instances of a build share its glue.
  const from = typeof wasm === 'string' ? new URL(wasm, import.meta.url) : wasm;
  const left = idle.get(from) as Started<G> | undefined;
  idle.delete(from);
  const started = left ?? await startSingle(from, bringGlue);
  return { ...started, leave: () => idle.set(from, started) };
}

function creator({ instance, glue: { RlxEngine } }: Started, onLeave: () => void): WasmModule['create'] {
  return (options, platform, gpu) => instance.engine(() => new RlxEngine(options, platform, gpu ?? undefined), onLeave);
}

function startSingle<G>(from: From, bringGlue: () => Promise<GlueModule<G>>): Promise<Started<G>> {
  return start(from, async (module) => {
    const { default: instantiate } = await bringGlue();
    const instance = new Instance();
    const glue = instantiate(instance);
    ({ memory: instance.memory } = await glue.init({ module_or_path: module }) as Initialised);
    return { instance, glue };
  });
}

function startThreaded(url: URL): Promise<Threaded> {
  let workers: Workers | undefined;
  const forget = () => {
    if (threaded === starting) threaded = undefined;
  };
  const starting = start(url, async (module) => {
    const { default: instantiate } = await lazy.threadsGlue();
    const instance = new Instance(() => {
      forget();
      workers?.end();
    });
    const glue = instantiate(instance);
    const { memory } = await glue.init({ module_or_path: module });
    instance.memory = memory;
    workers = new Workers({ module, memory }, (trap) => instance.stop(trap));
    return { instance, glue, workers };
  });
  starting.catch(forget);
  return starting;
}

async function start<T extends Started<unknown>>(from: From, instantiate: (module: WebAssembly.Module) => Promise<T>): Promise<T> {
  try {
    const started = await instantiate(await compiled(from));
    if (started.instance.stopped) throw started.instance.stopped;
    return started;
  } catch (cause) {
    if (cause instanceof RlxError) throw cause;
    throw new RlxError('io', 'the wasm module did not load', {
      at: from instanceof URL ? from.href : 'wasm',
      hint: 'check that the file is served, and that the browser has WebAssembly with SIMD',
      cause,
    });
  }
}

/** The module of a build, fetched and compiled once. */
function compiled(from: From): Promise<WebAssembly.Module> {
  let module = modules.get(from);
  if (!module) {
    module = compile(from);
    modules.set(from, module);
    module.catch(() => modules.delete(from));
  }
  return module;
}

async function compile(from: From): Promise<WebAssembly.Module> {
  if (from instanceof WebAssembly.Module) return from;
  if (!(from instanceof URL)) return WebAssembly.compile(from);
  const url = from;
  const local = readLocal(url);
  if (local) return WebAssembly.compile(local);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`the server answered ${response.status} ${response.statusText}`);
  // A browser does not compile a response of another content type while it arrives, but takes its bytes.
  const typed = response.headers.get('content-type') === 'application/wasm';
  return typed ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}

/** Node's `fetch` reads no files; Node and Deno have this instead. */
function readLocal(url: URL): Uint8Array<ArrayBuffer> | undefined {
  if (url.protocol !== 'file:') return undefined;
  return builtin<{ readFileSync(path: URL): Uint8Array<ArrayBuffer> }>('node:fs')?.readFileSync(url);
}
