/** Loads a model to a device, from the options of `load`. */

import { addressOf, isOnDisk } from './address.js';
import { chooseThreads } from './builds.js';
import { openStore, ShardCache } from './cache.js';
import { cancelled, RlxError, throwIfAborted, toRlxError } from './error.js';
import { findModel, languageFiles, openModel } from './folder.js';
import type { FoundModel, ModelFiles } from './folder.js';
import { GpuHost } from './gpu_host.js';
import type { ScopeError } from './gpu_host.js';
import { CHECKS, keep, kept, TIMES, TUNINGS } from './kept.js';
import { Integrity } from './integrity.js';
import { lazy } from './lazy.js';
import { load } from './loader.js';
import type { LoadContext } from './loader.js';
import { isAddress, modelItems } from './options.js';
import type { FileItem, ModelItem } from './options.js';
import { platform } from './platform.js';
import { fetcherFor } from './request.js';
import { ShardReader } from './shard.js';
import { BlobSource, UrlSource } from './source.js';
import type { EngineInfo, ErrorCode, LoadOptions } from './types.js';
import type { Platform, WasmEngine, WasmEngineOptions, WasmLoading, WasmOptions } from './wasm.js';
import { loadModule } from './wasm_module.js';

/** A model on a device. */
export interface Running<W extends WasmLoading = WasmEngine> {
  wasm: W;
  host: GpuHost | null;
}

/** The listener of a load, and tokens for the caches. */
interface Extra {
  onProgress?: LoadOptions['onProgress'] | undefined;
  tokens?: Uint32Array;
}

/** The options that say where a network runs and what is reported, for every kind of network. */
export type DeviceOptions = Pick<LoadOptions, 'device' | 'gpu' | 'tuning' | 'activations' | 'contextLength' | 'kv' | 'cache' | 'makeRoom' | 'integrity' | 'fetch' | 'headers' | 'onNotice' | 'signal'>;

/** How a load on a GPU that `auto` took goes on with an engine on the CPU. */
export interface Rival<W extends WasmLoading> {
  create(): Promise<W>;
  /** Has the load go on with this engine; the GPU's is disposed. */
  replace(engine: W): void;
}

/** An engine, which `settle` may replace. */
export interface Contending extends Pick<LoadContext, 'settle'> {
  engine: WasmEngine;
}

/** What a load uses: a device, readers of files, and the signal that ends it. */
export interface Bringing<W extends WasmLoading = WasmLoading> {
  host: GpuHost | null;
  /** With `auto` and a GPU. */
  rival?: Rival<W> | undefined;
  abort: AbortController;
  model: FoundModel;
  /** A reader of a file, from the cache if the file is there. */
  open(item: FileItem): Promise<ShardReader>;
}

/** A kind of network, and how to load it. */
interface Kind<W extends WasmLoading> {
  /** The wasm module, and how many threads it has. */
  module(host: GpuHost | null): Promise<{ threads?: number; create(optionsJson: string, platform: Platform, gpu: GpuHost | null): W }>;
  /** Constructor options besides those of every device. */
  options?: object;
  files: ModelFiles;
  /** Loads it, once it was found. Answers with an engine that took the place of `wasm`. */
  load(wasm: W, bringing: Bringing<W>): Promise<W | void>;
}

/**
 * Errors whose cause may be the GPU or its driver, not the file or its address, so that the CPU may work instead.
 * A kernel that the driver rejects is `internal`.
 */
const GPU_FAULTS: readonly ErrorCode[] = ['check_failed', 'out_of_memory', 'device_lost', 'internal'];

/** Bytes for the rows of conversations besides the current one, if the caller does not say. */
const CONVERSATION_BYTES = 32 * 1024 * 1024;

/** A language model's own options, for the wasm engine. */
export function engineOptions({ blockLength, conversationBytes = CONVERSATION_BYTES }: LoadOptions): WasmEngineOptions {
  return { blockLength: blockLength ?? null, conversationBytes };
}

/** Loads a language model to a device. The rows of `tokens` are computed in its caches. */
export function bring(options: LoadOptions, { onProgress, tokens }: Extra = options): Promise<Running> {
  const files = languageFiles(modelItems(options.model, 'model'));
  const threads = options.wasm ? 1 : chooseThreads(options.threads);
  return bringTo(options, {
    module: (host) => loadModule(options.wasm, host ? 1 : threads),
    options: engineOptions(options),
    files,
    load: async (wasm, { host, abort, rival, model, open }) => {
      // Without the script there is no contest, and the GPU is taken.
      const lazily = rival && await lazy.contest().catch(() => undefined);
      const running: Contending = lazily?.contest(wasm, host!, rival!, threads, abort.signal) ?? { engine: wasm };
      const shards = await openModel(running.engine, model, open);
      await load(shards, { ...running, host, abort, onProgress, tokens });
      const { engine } = running;
      const found = engine.found();
      if (found) {
        const { kernels, verdict } = JSON.parse(found) as { kernels: string; verdict: string };
        keep(CHECKS, kernels, verdict); // where it cannot be kept it is found again
      }
      const timed = engine.timed();
      if (timed) {
        const { key, times } = JSON.parse(timed) as { key: string; times: string };
        keep(TIMES, key, times);
      }
      return engine;
    },
  });
}

/** Loads a network to a device. A failure leaves nothing there. `fallback` is why `auto` chose the CPU. */
export async function bringTo<W extends WasmLoading>(options: DeviceOptions, kind: Kind<W>, fallback?: string): Promise<Running<W>> {
  const { signal, onNotice } = options;
  throwIfAborted(signal);
  const integrity = new Integrity(options);
  const abort = new AbortController();
  let host: GpuHost | null = null;
  let wasm: W | undefined;
  let why: string;
  const stop = () => {
    abort.abort();
    wasm?.cancel();
  };
  signal?.addEventListener('abort', stop, { once: true });
  try {
    const chosen = await chooseDevice(options, fallback);
    host = chosen.host;
    throwIfAborted(signal);
    const open = opener(options, kind.files.items, integrity, abort.signal);
    const [{ create, threads = 1 }, model] = await Promise.all([kind.module(host), findModel(kind.files, open)]);
    throwIfAborted(signal);
    wasm = create(JSON.stringify({ ...chosen.options, ...kind.options, threads }), platform, host);
    const rival: Rival<W> = {
      async create() {
        const { create: onCpu, threads: all = 1 } = await kind.module(null);
        return onCpu(JSON.stringify({ ...chosen.options, device: 'cpu', ...kind.options, threads: all }), platform, null);
      },
      replace(engine) {
        wasm?.dispose();
        host?.dispose();
        [wasm, host] = [engine, null];
      },
    };
    const mayMove = host && (options.device ?? 'auto') === 'auto';
    wasm = await kind.load(wasm, { host, abort, model, open, rival: mayMove ? rival : undefined }) ?? wasm;
    integrity.check();
    const error = host?.takeError();
    if (error) throw webgpuReported(error);
    const { demoted } = JSON.parse(wasm.info()) as Pick<EngineInfo, 'demoted'>;
    if (demoted.length > 0) {
      onNotice?.({ code: 'kernels_demoted', message: `Features of this GPU that do not work are not used: ${demoted.join('; ')}.` });
    }
    return { wasm, host };
  } catch (error) {
    abort.abort();
    try {
      wasm?.dispose();
    } catch {
      // A module that has stopped frees nothing; report the first error.
    }
    host?.dispose();
    if (signal?.aborted) throw cancelled('the load was cancelled');
    const fault = toRlxError(error);
    const mayFallBack = host !== null && (options.device ?? 'auto') === 'auto' && GPU_FAULTS.includes(fault.code);
    if (!mayFallBack) throw fault;
    why = fault.what;
  } finally {
    signal?.removeEventListener('abort', stop);
  }
  return bringTo({ ...options, device: 'cpu' }, kind, why);
}

export function free({ wasm, host }: Running<WasmLoading>): void {
  try {
    wasm.dispose();
  } finally {
    host?.dispose();
  }
}

/** The error that the host's `takeError` reports. */
export function webgpuReported(json: string): RlxError {
  const { kind, message } = JSON.parse(json) as ScopeError;
  return kind === 'out-of-memory'
    ? new RlxError('out_of_memory', `the GPU is out of memory: ${message}`, { hint: 'use a smaller model or contextLength, or close other tabs' })
    : new RlxError('internal', `WebGPU reported: ${message}`, { hint: 'please report it' });
}

/** The device's host, and the options of the engine. */
interface Chosen {
  host: GpuHost | null;
  options: Omit<WasmOptions, 'threads'>;
}

/** The device; decides `auto`. */
export async function chooseDevice(options: DeviceOptions, fallback: string | null = null): Promise<Chosen> {
  const { device = 'auto', gpu, contextLength = null, kv = null, activations = null, tuning = null } = options;
  const common = { contextLength, kv, activations };
  if (device !== 'cpu') {
    try {
      const host = await GpuHost.create(gpu ?? (globalThis.navigator as Navigator | undefined)?.gpu, { software: device === 'webgpu' });
      return { host, options: { ...common, device: 'webgpu', fallbackReason: null, tuning, tunings: kept(TUNINGS), checks: kept(CHECKS), times: kept(TIMES) } };
    } catch (error) {
      if (device === 'webgpu') throw error;
      return { host: null, options: { ...common, device: 'cpu', fallbackReason: toRlxError(error).what } };
    }
  }
  return { host: null, options: { ...common, device: 'cpu', fallbackReason: fallback } };
}

/** Opens files; addresses through the cache, if there is one. */
export function opener(options: DeviceOptions, model: readonly ModelItem[], integrity: Integrity, signal: AbortSignal): Bringing['open'] {
  const { cache = true, makeRoom, onNotice } = options;
  const fetcher = fetcherFor(options, model);
  const prepare = async () => {
    const store = await openStore();
    if (!store) {
      onNotice?.({ code: 'cache_unavailable', message: 'The browser does not let this page keep the model: it will be downloaded again next time.' });
      return undefined;
    }
    const shards = new ShardCache(store, once(onNotice), fetcher, { makeRoom });
    await shards.sweep().catch(() => {}); // housekeeping may fail without harm
    return shards;
  };
  let kept: ReturnType<typeof prepare> | undefined;
  return async (item) => {
    const sha256 = integrity.of(item);
    if (item instanceof Blob) return new ShardReader(new BlobSource(item), signal, { sha256 });
    if (item instanceof ReadableStream && lazy.stream) return new ShardReader(new (await lazy.stream()).StreamSource(item), signal, { sha256 });
    if (!isAddress(item)) return new ShardReader(new BlobSource(await (item as FileSystemFileHandle).getFile()), signal, { sha256 });
    const url = addressOf(item);
    if (isOnDisk(url) && lazy.disk) return new ShardReader(new (await lazy.disk()).DiskSource(url), signal, { sha256 });
    const shards = cache ? await (kept ??= prepare()) : undefined;
    return shards ? shards.reader(url.href, signal, sha256) : new ShardReader(new UrlSource(url.href, undefined, fetcher), signal, { sha256 });
  };
}

/** Reports each kind of notice once, even if several shards cause it. */
function once(notify: LoadOptions['onNotice']): NonNullable<LoadOptions['onNotice']> {
  const told = new Set<string>();
  return (notice) => {
    if (told.has(notice.code)) return;
    told.add(notice.code);
    notify?.(notice);
  };
}
