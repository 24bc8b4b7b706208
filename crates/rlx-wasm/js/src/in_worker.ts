/** Loads a model in a worker, so that the page's thread never waits for it. */

import { cancelled, RlxError, throwIfAborted, usage } from './error.js';
import { keep, lend } from './kept.js';
import { lifeLock } from './life.js';
import { isAddress, isData, modelItems } from './options.js';
import { ABORT_MS, RemoteEngine } from './remote.js';
import type { LoadOptions } from './types.js';
import { VERSION } from './wire.js';
import type { Connect, FromEngine, ToEngine } from './wire.js';

/** Milliseconds in which a worker of the caller's must say that it is RLX's too. */
const HELLO_MS = 60_000;

/** Why a worker of ours did not start, such as the page's security policy. */
export class NoWorker extends RlxError {}

/** Whether an engine is loaded in a worker, if the caller does not say: in pages, where the thread is the user's. */
export function usually({ gpu, fetch, model }: LoadOptions): boolean {
  return typeof document !== 'undefined' && typeof Worker !== 'undefined' && gpu === undefined && isData(fetch) && isData(model);
}

/** Loads a model in a worker. Rejects with `NoWorker` if there can be none. */
export async function loadInWorker(options: LoadOptions): Promise<RemoteEngine> {
  const { worker: given, signal, onNotice, onLost } = options;
  const { worker, ours } = start(given || true);
  const end = () => {
    if (ours) worker.terminate();
  };
  const { port1: port, port2: theirs } = new MessageChannel();
  worker.postMessage({ rlx: 'connect' } satisfies Connect, [theirs]);
  let lock: string | undefined;
  try {
    const known = given === undefined || given === true; // and comes, however slow the network is, or fails
    lock = await hello(port, { worker, patience: known ? undefined : HELLO_MS, signal });
  } catch (error) {
    port.close();
    end();
    throw error;
  }
  const engine = new RemoteEngine(port, { keep, onNotice, onLost, lock, close: end });
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stop = () => {};
  // The worker may be in the middle of a long computation, and hear the signal after it.
  const late = new Promise<never>((_, reject) => {
    stop = () => {
      timer = setTimeout(() => reject(cancelled('the load was cancelled')), ABORT_MS);
    };
  });
  if (ours) signal?.addEventListener('abort', stop, { once: true });
  try {
    await Promise.race([engine.load(asData(options), lend()), late]);
    throwIfAborted(signal); // the worker may hear of it after its last step
    return engine;
  } catch (error) {
    const freed = engine.dispose();
    if (timer === undefined) await freed; // nothing is left of the attempt
    else end();
    throw error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}

/** The worker to load in, and whether it is ours, to be ended with the engine. */
function start(given: true | Worker | URL | string): { worker: Worker; ours: boolean } {
  try {
    if (given === true) {
      return { worker: ofPackage(), ours: true };
    }
    return given instanceof Worker ? { worker: given, ours: false } : { worker: new Worker(given, { type: 'module' }), ours: true };
  } catch (cause) {
    throw noWorker(cause);
  }
}

/** A worker of the package's own module. */
function ofPackage(): Worker {
  const options: WorkerOptions = { type: 'module', name: 'rlx-engine' };
  try {
    // Bundlers know this form and include the file.
    return new Worker(new URL('./engine_worker.js', import.meta.url), { type: 'module', name: 'rlx-engine' });
  } catch (cause) {
    if (!(cause instanceof DOMException && cause.name === 'SecurityError')) throw cause;
    // A page may not start a script of another origin, such as a CDN's, but its own script may import one.
    const file = 'engine_worker.js';
    const script = new Blob([`import ${JSON.stringify(new URL(file, import.meta.url).href)};`], { type: 'text/javascript' });
    const url = URL.createObjectURL(script);
    const worker = new Worker(url, options);
    // The worker has read its script by the time that it says anything.
    worker.addEventListener('message', () => URL.revokeObjectURL(url), { once: true });
    return worker;
  }
}

function noWorker(cause: unknown): NoWorker {
  const said = cause instanceof Error || cause instanceof ErrorEvent ? cause.message : '';
  return new NoWorker('device_unavailable', `the worker did not start${said && `: ${said}`}`, {
    hint: 'serve the package’s modules, let the page’s security policy allow them in worker-src, or use worker: false',
    cause,
  });
}

/** An engine that another thread serves on a port. */
export async function connect(port: MessagePort, { signal }: { signal?: AbortSignal } = {}): Promise<RemoteEngine> {
  const lock = await hello(port, { patience: HELLO_MS, signal });
  const engine = new RemoteEngine(port, { keep, lock, close: () => {} });
  void lifeLock().then((lock) => lock !== undefined && port.postMessage({ lock } satisfies ToEngine));
  try {
    await engine.load({ signal } as LoadOptions, {});
    return engine;
  } catch (error) {
    void engine.dispose();
    throw error;
  }
}

interface Greeting {
  /** The worker behind the port, whose faults are heard. */
  worker?: Worker;
  /** Milliseconds to wait, if not for ever. */
  patience?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** Waits until the other side serves the port; the lock of its thread. */
function hello(port: MessagePort, { worker, patience, signal }: Greeting): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const over = (work: () => void) => {
      clearTimeout(timer);
      worker?.removeEventListener('error', failed);
      signal?.removeEventListener('abort', aborted);
      work();
    };
    const failed = (event: ErrorEvent) => over(() => reject(noWorker(event)));
    const aborted = () => over(() => reject(cancelled('the load was cancelled')));
    const silent = () => over(() => reject(usage(
      'no engine answers on the port', 'worker', "the worker's module must import 'rlx-wasm/worker', or serve an engine",
    )));
    const timer = patience && setTimeout(silent, patience);
    worker?.addEventListener('error', failed);
    signal?.addEventListener('abort', aborted);
    if (signal?.aborted) return aborted();
    port.onmessage = ({ data }: MessageEvent<FromEngine>) => over(() => {
      if ('hello' in data && data.hello === VERSION) return resolve(data.lock);
      const version = 'hello' in data ? data.hello : 'another';
      reject(usage(`the worker is of version ${version} of the package, and the page of ${VERSION}`, 'worker', 'serve both from one version'));
    });
  });
}

/** The options as what a worker can get: addresses are made whole here, where they belong. */
function asData({ worker: _, ...options }: LoadOptions): LoadOptions {
  const whole = (item: unknown) => (isAddress(item) ? address(item) : item);
  const { wasm, grammarWasm } = options;
  return {
    ...options,
    model: modelItems(options.model, 'model').map(whole) as string[],
    ...(wasm !== undefined && { wasm: wasm instanceof URL ? wasm.href : wasm }),
    ...(grammarWasm !== undefined && { grammarWasm: grammarWasm instanceof URL ? grammarWasm.href : grammarWasm }),
  };
}

function address(item: string | URL): string {
  try {
    return new URL(item, document.baseURI).href;
  } catch {
    return String(item); // the load says what is wrong with it
  }
}
