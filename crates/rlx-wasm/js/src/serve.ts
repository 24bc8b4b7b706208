/** The engine's side of a port: does what the user's messages ask for. */

import type { Core } from './core.js';
import { RlxError, toRlxError } from './error.js';
import type { Lent } from './kept.js';
import { lifeLock, whenOver } from './life.js';
import type { ChatRequest, TextRequest } from './openai/types.js';
import type { EngineInfo, LoadOptions } from './types.js';
import { toWire, VERSION, WINDOW } from './wire.js';
import type { FromEngine, Method, ToEngine } from './wire.js';

/** A call under way. */
interface Open {
  abort: AbortController;
  /** Chunks of its stream that the user has room for. */
  room: number;
  /** Goes on with a stream that waits for room. */
  wake: () => void;
  /** Ends its stream; absent while there is none. */
  leave?: () => void;
}

/** Loads an engine, with what the user's page has stored; `keep` has the page store more. */
export type Loader = (options: LoadOptions, lent: Lent, keep: (name: string, key: string, text: string) => void) => Promise<Core>;

/**
 * Serves one user. `engine` is one that others may use too, or how this user's own is loaded, which is freed when
 * the user is done with it.
 */
export function serve(port: MessagePort, engine: Promise<Core> | Loader): void {
  const calls = new Map<number, Open>();
  let core = typeof engine === 'function' ? undefined : engine;
  core?.catch(() => {}); // told to whoever calls
  const tell = (message: FromEngine) => port.postMessage(message);

  const methods: { [method in Method]: (id: number, signal: AbortSignal, args: readonly unknown[]) => Promise<unknown> } = {
    load: async (id, signal, [options, lent]) => {
      if (typeof engine === 'function') {
        const listeners: Partial<LoadOptions> = {
          onProgress: (progress) => tell({ progress, id }),
          onNotice: (notice) => tell({ notice }),
          onLost: (error) => tell({ lost: toWire(error) }),
        };
        core ??= engine({ ...options as LoadOptions, ...listeners, signal }, lent as Lent, (...keep) => tell({ keep }));
      }
      await core;
    },
    chat: async (_, signal, [request]) => (await live()).chat.completions.create({ ...request as ChatRequest, signal }),
    complete: async (_, signal, [request]) => (await live()).completions.create({ ...request as TextRequest, signal }),
    tokenize: async (_, __, args) => (await live()).tokenize(...args as Parameters<Core['tokenize']>),
    detokenize: async (_, __, args) => (await live()).detokenize(...args as Parameters<Core['detokenize']>),
    countTokens: async (_, __, args) => (await live()).countTokens(...args as Parameters<Core['countTokens']>),
    memory: async () => (await live()).memory(),
    reload: async (id, signal) => (await live()).reload({ signal, onProgress: (progress) => tell({ progress, id }) }),
  };

  const live = (): Promise<Core> => core ?? Promise.reject(new RlxError('internal', 'no model was loaded over this port'));

  async function run({ call, id, args }: Extract<ToEngine, { call: Method }>): Promise<void> {
    const open: Open = { abort: new AbortController(), room: WINDOW, wake: () => {} };
    calls.set(id, open);
    try {
      let value = await methods[call](id, open.abort.signal, args);
      if (isStream(value)) {
        tell({ stream: id });
        await pump(value, id, open, tell);
        value = undefined;
      }
      tell({ value, id, info: await info(core) });
    } catch (error) {
      tell({ error: toWire(toRlxError(error)), id, info: await info(core) });
    } finally {
      calls.delete(id);
    }
  }

  let forget = () => {};
  const end = async () => {
    forget();
    for (const { abort } of calls.values()) abort.abort();
    // A load that fails, or was aborted now, leaves nothing to free.
    if (typeof engine === 'function') await core?.then((loaded) => loaded.dispose(), () => {});
    tell({ disposed: true });
    port.close();
  };

  port.onmessage = ({ data }: MessageEvent<ToEngine>) => {
    if ('call' in data) {
      void run(data);
    } else if ('abort' in data) {
      calls.get(data.abort)?.abort.abort();
    } else if ('lock' in data) {
      forget = whenOver(data.lock, end); // a tab may go without a word
    } else if ('dispose' in data) {
      void end();
    } else {
      const open = calls.get('read' in data ? data.read : data.leave);
      if (!open) return; // it has ended meanwhile
      if ('read' in data) open.room += data.count;
      else open.leave?.();
      open.wake();
    }
  };
  void lifeLock().then((lock) => tell({ hello: VERSION, lock }));
}

/** Sends a stream's chunks while the user has room for them, until one of the two ends it. */
async function pump(stream: AsyncIterable<unknown>, id: number, open: Open, tell: (message: FromEngine) => void): Promise<void> {
  const chunks = stream[Symbol.asyncIterator]();
  let left: Promise<unknown> | undefined;
  open.leave = () => {
    left ??= chunks.return?.();
  };
  try {
    while (!left) {
      const { value, done } = await chunks.next();
      if (done || left) break;
      tell({ chunk: value, id });
      open.room -= 1;
      while (open.room <= 0 && !left) {
        await new Promise<void>((wake) => {
          open.wake = wake;
        });
      }
    }
  } catch (error) {
    if (!left) throw error; // who has left does not hear of it
  }
  await left;
}

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

async function info(core: Promise<Core> | undefined): Promise<EngineInfo | undefined> {
  try {
    return (await core)?.info();
  } catch {
    return undefined; // it did not load, or was disposed
  }
}
