/** The storages of a browser that can keep shards: the origin private file system, else the Cache API. */

import { RlxError } from './error.js';

/** Where everything is, in each of them. */
export const FOLDER = 'rlx-shards-1';

/** Named items of bytes: the interface of a browser's storage. */
export interface Store {
  /** Undefined if there is none. */
  read(name: string): Promise<Blob | undefined>;
  /** A new item. It appears when `close` resolves, and never after `abort`. */
  write(name: string): Promise<StoreWriter>;
  remove(name: string): Promise<void>;
  names(): Promise<string[]>;
  /** Whether there is room for so many bytes more, by trying; absent where that would write them. */
  holds?(bytes: number): Promise<boolean>;
}

export interface StoreWriter {
  /** The chunk may be reused once this resolves. */
  write(chunk: Uint8Array): Promise<void>;
  close(): Promise<void>;
  abort(): Promise<void>;
}

/** The first store of this browser that can be written; undefined if there is none. */
export async function openStore(): Promise<Store | undefined> {
  for (const open of [openFileSystem, openCacheApi]) {
    try {
      return await open();
    } catch {
      // Not in this browser, not in this context (storage needs a secure one), or denied.
    }
  }
  return undefined;
}

/** Removes everything that the package has stored for this origin. */
export async function clearStores(): Promise<void> {
  if (typeof caches !== 'undefined') await caches.delete(FOLDER).catch(() => false);
  const root = await globalThis.navigator?.storage?.getDirectory?.().catch(() => undefined);
  const folder = await root?.getDirectoryHandle(FOLDER).catch(() => undefined);
  if (!root || !folder) return; // nothing was kept
  // One by one: the whole folder stays if one of its files is being written.
  const names = await namesIn(folder);
  const done = await Promise.allSettled(names.map((name) => folder.removeEntry(name).catch(missing)));
  const left = done.filter(({ status }) => status === 'rejected').length;
  if (left > 0) {
    throw new RlxError('io', `${left} stored files are in use and were not removed`, { hint: 'end the loads that run, also in other tabs, and try again' });
  }
}

const missing = (cause: unknown) => {
  if (cause instanceof DOMException && cause.name === 'NotFoundError') return undefined;
  throw cause;
};

async function namesIn(folder: FileSystemDirectoryHandle): Promise<string[]> {
  const names: string[] = [];
  const entries = folder as unknown as { keys(): AsyncIterable<string> };
  for await (const name of entries.keys()) names.push(name);
  return names;
}

async function openFileSystem(): Promise<Store> {
  const root = await navigator.storage.getDirectory();
  const folder = await root.getDirectoryHandle(FOLDER, { create: true });
  // A unique name, because several loads may do this at once.
  const name = itemName('probe');
  const probe = await folder.getFileHandle(name, { create: true });
  const writable = await probe.createWritable(); // absent before Safari 26
  await writable.write(new Uint8Array(1));
  await writable.close();
  await folder.removeEntry(name).catch(() => {}); // `sweep` finds it later
  return {
    read: async (name) => {
      const handle = await folder.getFileHandle(name).catch(missing);
      return handle?.getFile();
    },
    write: async (name) => {
      const handle = await folder.getFileHandle(name, { create: true });
      const out = await handle.createWritable();
      return {
        write: (chunk) => out.write(chunk as Uint8Array<ArrayBuffer>),
        close: () => out.close(),
        abort: () => out.abort(),
      };
    },
    remove: async (name) => {
      await folder.removeEntry(name).catch(missing);
    },
    names: () => namesIn(folder),
    holds: async (bytes) => {
      if (bytes <= 0) return true;
      const name = itemName('probe');
      const out = await (await folder.getFileHandle(name, { create: true })).createWritable();
      try {
        await out.truncate(bytes);
        await out.truncate(0); // it counts until then
        return true;
      } catch (cause) {
        return (cause as Error).name !== 'QuotaExceededError';
      } finally {
        await out.abort().catch(() => {});
        await folder.removeEntry(name).catch(() => {});
      }
    },
  };
}

async function openCacheApi(): Promise<Store> {
  const cache = await caches.open(FOLDER);
  const address = (name: string) => `https://rlx.invalid/${name}`;
  await cache.put(address('probe'), new Response('.'));
  await cache.delete(address('probe'));
  return {
    read: async (name) => (await cache.match(address(name)))?.blob(),
    write: async (name) => {
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      const out = writable.getWriter();
      const stored = cache.put(address(name), new Response(readable));
      stored.catch((cause: unknown) => out.abort(cause).catch(() => {}));
      return {
        write: async (chunk) => {
          await out.ready;
          await out.write(chunk.slice()); // the cache reads it later; the caller's buffer is reused
        },
        close: async () => {
          await out.close();
          await stored;
        },
        abort: async () => {
          await out.abort(new Error('not kept')).catch(() => {});
          await stored.catch(() => {});
        },
      };
    },
    remove: async (name) => {
      await cache.delete(address(name));
    },
    names: async () => (await cache.keys()).map(({ url }) => url.slice(url.lastIndexOf('/') + 1)),
  };
}

/** A unique name for the pieces of a file, which tells `sweep` their age. */
export function itemName(key: string): string {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return `${key}.${Date.now()}-${[...random].map((n) => n.toString(16)).join('')}`;
}
