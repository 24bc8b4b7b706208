/** `Engine`: a model on a device. */

import { chooseThreads } from './builds.js';
import { clearStores, openStore, ShardCache } from './cache.js';
import { completions } from './chat.js';
import { cancelled, RlxError, throwIfAborted, toRlxError } from './error.js';
import { GpuHost } from './gpu_host.js';
import { load } from './loader.js';
import { platform } from './platform.js';
import { Queue } from './queue.js';
import { ShardReader } from './shard.js';
import { BlobSource, UrlSource } from './source.js';
import type { Completions, EngineInfo, LoadOptions } from './types.js';
import type { WasmEngine, WasmEvent, WasmOptions } from './wasm.js';
import { loadModule } from './wasm_module.js';

const LOAD_KEYS: { [key in keyof Required<LoadOptions>]: true } = {
  model: true, device: true, contextLength: true, gpu: true, cache: true, kv: true,
  activations: true, threads: true, wasmUrl: true, onProgress: true, onNotice: true, signal: true,
};

export class Engine {
  /** Chat completions with OpenAI's shapes. */
  readonly chat: { readonly completions: Completions };
  readonly #queue = new Queue();
  readonly #disposed: Promise<never>;
  #refuse: (reason: RlxError) => void = () => {};
  #over: RlxError | undefined;
  /** The wasm engine's promise that has not settled; it is freed only after it has. */
  #pending: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly wasm: WasmEngine,
    private readonly host: GpuHost | null,
  ) {
    this.#disposed = new Promise<never>((_, reject) => {
      this.#refuse = reject;
    });
    this.#disposed.catch(() => {}); // nobody may be waiting
    const engine = {
      start: (request: string) => {
        this.#check();
        this.wasm.start(request);
      },
      nextEvent: () => this.#nextEvent(),
      cancel: () => {
        if (!this.#over) this.wasm.cancel();
      },
    };
    const modelName = this.info().model.name;
    this.chat = { completions: completions({ engine, queue: this.#queue, platform, modelName }) };
  }

  /**
   * Loads a model. May be called again after it failed, with nothing left of the attempt.
   *
   * Rejects with an `RlxError`: `usage` (an option), `device_unavailable`, `io` (an address, a
   * stream that stopped), `bad_file`, `unsupported`, `out_of_memory`, `cancelled` (the signal),
   * `check_failed` (a GPU that computes wrong values, which `auto` leaves for the CPU).
   */
  static async load(options: LoadOptions): Promise<Engine> {
    checkOptions(options);
    const { signal, onNotice } = options;
    throwIfAborted(signal);
    let chosen: Chosen | undefined;
    let engine: Engine;
    try {
      chosen = await chooseDevice(options);
      engine = await Engine.#attempt(options, chosen);
    } catch (error) {
      if (signal?.aborted) throw cancelled('the load was cancelled');
      const fault = toRlxError(error);
      if (!chosen?.host || options.device === 'webgpu' || fault.code !== 'check_failed') throw fault;
      onNotice?.({ code: 'kernels_demoted', message: `The model runs on the CPU: ${fault.what}.` });
      const cpu = { ...chosen.options, device: 'cpu' as const, fallbackReason: fault.what };
      return Engine.#attempt(options, { host: null, options: cpu });
    }
    const { demoted } = engine.info();
    if (demoted.length > 0) {
      onNotice?.({ code: 'kernels_demoted', message: `Features of this GPU that do not work are not used: ${demoted.join('; ')}.` });
    }
    return engine;
  }

  /** Loads on the chosen device, and leaves nothing behind when that fails. */
  static async #attempt(options: LoadOptions, chosen: Chosen): Promise<Engine> {
    const { signal } = options;
    const { host } = chosen;
    const abort = new AbortController();
    const stop = () => abort.abort();
    signal?.addEventListener('abort', stop, { once: true });
    let wasm: WasmEngine | undefined;
    try {
      throwIfAborted(signal);
      const { create, threads } = await loadModule(options.wasmUrl, host ? 1 : chooseThreads(options.threads));
      throwIfAborted(signal);
      wasm = create(JSON.stringify({ ...chosen.options, threads }), platform, host);
      const shards = await openShards(options, abort.signal);
      await load(shards, { engine: wasm, host, abort, onProgress: options.onProgress });
      const error = host?.takeError();
      if (error) throw webgpuReported(error);
      return new Engine(wasm, host);
    } catch (error) {
      abort.abort();
      try {
        wasm?.dispose();
      } catch {
        // A module that has stopped frees nothing; the first fault is the one to tell.
      }
      host?.dispose();
      if (signal?.aborted) throw cancelled('the load was cancelled');
      throw toRlxError(error);
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  /** Removes every shard kept for this origin. Loads that run meanwhile keep working. */
  static async clearCache(): Promise<void> {
    await clearStores();
  }

  /** What runs, where, and how fast the last answer was. */
  info(): EngineInfo {
    this.#check();
    return JSON.parse(this.wasm.info()) as EngineInfo;
  }

  /**
   * Frees the model's memory. Calls that run or wait end with code `disposed`. The GPU device
   * itself is left alone. Doing it twice does nothing.
   */
  dispose(): void {
    if (this.#over) return;
    this.wasm.cancel();
    this.#over = new RlxError('disposed', 'the engine was disposed', { hint: 'load the model again' });
    this.#refuse(this.#over);
    this.#queue.close(this.#over);
    const free = () => {
      try {
        this.wasm.dispose();
      } finally {
        this.host?.dispose();
      }
    };
    void this.#pending.then(free, free);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #check(): void {
    if (this.#over) throw this.#over;
  }

  async #nextEvent(): Promise<string> {
    this.#check();
    const event = this.wasm.nextEvent();
    this.#pending = event.catch(() => {});
    const json = await Promise.race([event, this.#disposed]);
    const error = this.host?.takeError();
    if (!error) return json;
    // What the device computed cannot be trusted: end the call, inside the engine too.
    this.wasm.cancel();
    for (let last = json; (JSON.parse(last) as WasmEvent).type !== 'done';) {
      const next = this.wasm.nextEvent();
      this.#pending = next.catch(() => {});
      last = await Promise.race([next, this.#disposed]);
    }
    throw webgpuReported(error);
  }
}

function webgpuReported(error: string): RlxError {
  return new RlxError('internal', `WebGPU reported: ${error}`, { hint: 'please report it' });
}

function checkOptions(options: LoadOptions): void {
  const usage = (what: string, at: string) => new RlxError('usage', what, { at });
  for (const key of Object.keys(options)) {
    if (!(key in LOAD_KEYS)) throw usage(`${key} is not an option of load`, key);
  }
  const oneOf = (key: 'device' | 'kv' | 'activations', values: readonly string[]) => {
    const value = options[key];
    if (value !== undefined && !values.includes(value)) {
      throw usage(`${key} is ${String(value)}, it must be ${values.join(' or ')}`, key);
    }
  };
  oneOf('device', ['auto', 'webgpu', 'cpu']);
  oneOf('kv', ['f32', 'f16', 'q8_0']);
  oneOf('activations', ['f32', 'int8']);
  const context = options.contextLength;
  if (context !== undefined && !(Number.isInteger(context) && context >= 16 && context <= 2 ** 24)) {
    throw usage(`contextLength is ${String(context)}, it must be a whole number from 16 to 16777216`, 'contextLength');
  }
  const { threads } = options;
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= 64)) {
    throw usage(`threads is ${String(threads)}, it must be a whole number from 1 to 64`, 'threads');
  }
  const items = modelItems(options);
  const fits = items.every((item) => typeof item === 'string' || item instanceof URL || item instanceof Blob);
  if (items.length === 0 || !fits) {
    throw usage('model must be one address or Blob, or an array of at least one', 'model');
  }
}

function modelItems({ model }: LoadOptions): (string | URL | Blob)[] {
  return Array.isArray(model) ? [...model] as (string | URL | Blob)[] : [model as string | URL | Blob];
}

/** The device's host and what the engine is told. */
interface Chosen {
  host: GpuHost | null;
  options: Omit<WasmOptions, 'threads'>;
}

/** The device, `auto` decided. */
async function chooseDevice(options: LoadOptions): Promise<Chosen> {
  const { device = 'auto', gpu, contextLength = null, kv = null, activations = null } = options;
  const common = { contextLength, kv, activations };
  if (device !== 'cpu') {
    try {
      const host = await GpuHost.create(gpu ?? (globalThis.navigator as Navigator | undefined)?.gpu);
      return { host, options: { ...common, device: 'webgpu', fallbackReason: null } };
    } catch (error) {
      if (device === 'webgpu') throw error;
      return { host: null, options: { ...common, device: 'cpu', fallbackReason: toRlxError(error).what } };
    }
  }
  return { host: null, options: { ...common, device: 'cpu', fallbackReason: null } };
}

async function openShards(options: LoadOptions, signal: AbortSignal): Promise<ShardReader[]> {
  const items = modelItems(options);
  const remote = items.some((item) => !(item instanceof Blob));
  const { onNotice } = options;
  let cache: ShardCache | undefined;
  if (remote && (options.cache ?? true)) {
    const store = await openStore();
    if (store) {
      cache = new ShardCache(store, once(onNotice));
      await cache.sweep().catch(() => {}); // housekeeping may fail without harm
    } else {
      onNotice?.({ code: 'cache_unavailable', message: 'The browser does not let this page keep the model: it will be downloaded again next time.' });
    }
  }
  return Promise.all(items.map((item) => {
    if (item instanceof Blob) return new ShardReader(new BlobSource(item), signal);
    const url = new URL(item, globalThis.location?.href).href;
    return cache ? cache.reader(url, signal) : new ShardReader(new UrlSource(url), signal);
  }));
}

/** Three shards give one notice of a kind, not three. */
function once(notify: LoadOptions['onNotice']): NonNullable<LoadOptions['onNotice']> {
  const told = new Set<string>();
  return (notice) => {
    if (told.has(notice.code)) return;
    told.add(notice.code);
    notify?.(notice);
  };
}

