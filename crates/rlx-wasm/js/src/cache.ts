/**
 * A cache of shards for the next visit, in the origin private file system or, if that cannot be
 * written, in the Cache API.
 *
 * An entry is two items: the bytes, under a unique name, then a record with that name, written when
 * the bytes are complete. Bytes are found only through a record, so a partial entry is never read.
 *
 * A cached shard is used if the server says that its version is the same, or if no server answers. That the server
 * has no such file is kept too, as a record without bytes: a folder may lack files, and is whole offline as well.
 */

import { RlxError, throwIfAborted } from './error.js';
import { ShardReader } from './shard.js';
import { BlobSource, httpError, isMissing, missingError, UrlSource, validatorOf } from './source.js';
import type { Opened, Source } from './source.js';
import type { Notice } from './types.js';

/** Named items of bytes: the interface of a browser's storage. */
export interface Store {
  /** Undefined if there is none. */
  read(name: string): Promise<Blob | undefined>;
  /** A new item. It appears when `close` resolves, and never after `abort`. */
  write(name: string): Promise<StoreWriter>;
  remove(name: string): Promise<void>;
  names(): Promise<string[]>;
}

export interface StoreWriter {
  /** The chunk may be reused once this resolves. */
  write(chunk: Uint8Array): Promise<void>;
  close(): Promise<void>;
  abort(): Promise<void>;
}

/** Receives the bytes of a `ShardReader`. An error of the storage ends the caching, never the loading. */
export interface CacheWriter {
  write(chunk: Uint8Array): Promise<void>;
  publish(): Promise<void>;
  abort(): Promise<void>;
}

interface Record {
  url: string;
  validator: string;
  bytes: number;
  /** The item that holds the bytes; null if the server had no such file. */
  item: string | null;
}

/** An item without a record belongs to a running load in another tab, or to one that died. After a day it has died. */
const ORPHAN_MS = 24 * 3600 * 1000;
const FOLDER = 'rlx-shards-1';

type Notify = (notice: Notice) => void;

export class ShardCache {
  constructor(
    private readonly store: Store,
    private readonly notify: Notify = () => {},
    private readonly fetcher: typeof fetch = (...args) => fetch(...args),
  ) {}

  /** A reader of `url`: from the cache if the version is the server's, else from the server, into the cache. */
  async reader(url: string, signal?: AbortSignal): Promise<ShardReader> {
    const key = await keyOf(url);
    const network = this.#remembering(new UrlSource(url, 'no-store', this.fetcher), key);
    const keep = (opened: Opened) => this.#writer(url, key, opened);
    const kept = await this.#lookup(key, url);
    if (!kept) return new ShardReader(network, signal, keep);

    const cached = () => new ShardReader(new BlobSource(kept.blob, url, 'cache'), signal);
    const answer = await this.#revalidate(url, signal);
    if (answer === 'offline') {
      this.#tellOffline();
      return cached();
    }
    return answer.validator === kept.record.validator ? cached() : new ShardReader(network, signal, keep);
  }

  /** Removes bytes without a record that are too old to belong to a running load. */
  async sweep(now = Date.now()): Promise<void> {
    const names = await this.store.names();
    const named = new Set<string>();
    for (const name of names) {
      if (name.endsWith('.json')) named.add((await this.#record(name))?.item ?? '');
    }
    for (const name of names) {
      const written = Number(/\.(\d+)-[0-9a-f]+\.bytes$/.exec(name)?.[1] ?? NaN);
      if (written < now - ORPHAN_MS && !named.has(name)) await this.store.remove(name);
    }
  }

  /** The same source, which remembers that the server has no such file, and says so if no server answers. */
  #remembering(network: Source, key: string): Source {
    const { name, kind } = network;
    const absent = async () => (await this.#record(`${key}.json`).catch(() => undefined))?.item === null;
    const open: Source['open'] = async (signal, rest) => {
      try {
        return await network.open(signal, rest);
      } catch (error) {
        if (isMissing(error)) {
          const record: Record = { url: name, validator: '', bytes: 0, item: null };
          await this.#publish(key, record).catch(() => {}); // offline it is an error then
        } else if (!signal?.aborted && error instanceof RlxError && error.code === 'io' && await absent()) {
          this.#tellOffline();
          throw missingError(name, 'the server had no such file at an earlier visit, and does not answer now');
        }
        throw error;
      }
    };
    return { name, kind, open };
  }

  #tellOffline(): void {
    this.notify({ code: 'offline', message: 'The server does not answer: using the copy kept from an earlier visit.' });
  }

  /** Writes a record in place of the one before it, whose bytes are removed. */
  async #publish(key: string, record: Record): Promise<void> {
    await alone(`${FOLDER}/${key}`, async () => {
      const old = await this.#record(`${key}.json`);
      const json = await this.store.write(`${key}.json`);
      await json.write(new TextEncoder().encode(JSON.stringify(record)));
      await json.close();
      // Bytes that another tab is reading may stay; `sweep` finds them later.
      if (old?.item && old.item !== record.item) await this.store.remove(old.item).catch(() => {});
    });
  }

  /** The server's version, or `offline` if the server cannot be reached or fails (5xx). */
  async #revalidate(
    url: string,
    signal?: AbortSignal,
    method: 'HEAD' | 'GET' = 'HEAD',
  ): Promise<'offline' | { validator: string | undefined }> {
    let response: Response;
    try {
      response = await this.fetcher(url, { method, cache: 'no-store', signal: signal ?? null });
    } catch {
      throwIfAborted(signal);
      return 'offline';
    }
    // Do not keep an unread body: another shard may be waiting for the connection.
    await response.body?.cancel().catch(() => {});
    const { ok, status, headers } = response;
    if (ok) return { validator: validatorOf(headers) };
    if (status >= 500 && status !== 501) return 'offline';
    if (method === 'GET' || status === 404 || status === 410) throw httpError(response, url);
    return this.#revalidate(url, signal, 'GET'); // the server does not answer HEAD
  }

  async #lookup(key: string, url: string): Promise<{ record: Record; blob: Blob } | undefined> {
    try {
      const record = await this.#record(`${key}.json`);
      if (record?.url !== url || record.item === null) return undefined;
      const blob = await this.store.read(record.item);
      return blob?.size === record.bytes ? { record, blob } : undefined;
    } catch {
      return undefined; // storage that cannot be read holds nothing
    }
  }

  async #record(name: string): Promise<Record | undefined> {
    const blob = await this.store.read(name);
    if (!blob) return undefined;
    try {
      return JSON.parse(await blob.text()) as Record;
    } catch {
      return undefined;
    }
  }

  async #writer(url: string, key: string, opened: Opened): Promise<CacheWriter | undefined> {
    const { validator, bytes, claimed } = opened;
    const least = bytes ?? claimed;
    if (validator === undefined || least === undefined) return undefined; // no way to know it again
    const item = itemName(key);
    let out: StoreWriter | undefined;
    let written = 0;

    const giveUp = async (cause: unknown) => {
      const writer = out;
      out = undefined;
      await writer?.abort().catch(() => {});
      await this.store.remove(item).catch(() => {});
      this.#tell(cause);
    };
    try {
      out = await this.store.write(item);
    } catch (cause) {
      this.#tell(cause);
      return undefined;
    }
    return {
      write: async (chunk) => {
        try {
          await out?.write(chunk);
          written += chunk.byteLength;
        } catch (cause) {
          await giveUp(cause);
        }
      },
      publish: async () => {
        if (!out) return;
        if (written < least) return giveUp(new RlxError('io', 'incomplete', { at: url }));
        try {
          await out.close();
          out = undefined;
          await this.#publish(key, { url, validator, bytes: written, item });
        } catch (cause) {
          await giveUp(cause);
        }
      },
      abort: async () => {
        const writer = out;
        out = undefined;
        await writer?.abort().catch(() => {});
        await this.store.remove(item).catch(() => {});
      },
    };
  }

  #tell(cause: unknown): void {
    const full = cause instanceof Error && cause.name === 'QuotaExceededError';
    this.notify(full
      ? { code: 'cache_full', message: 'The browser has no room to keep the model: it will be downloaded again next time.' }
      : { code: 'cache_unavailable', message: 'The browser does not let this page keep the model: it will be downloaded again next time.' });
  }
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
  try {
    const root = await navigator.storage.getDirectory();
    await root.removeEntry(FOLDER, { recursive: true });
  } catch {
    // Nothing there, or no file system: nothing to clear.
  }
  if (typeof caches !== 'undefined') await caches.delete(FOLDER).catch(() => false);
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
  const missing = (cause: unknown) => {
    if (cause instanceof DOMException && cause.name === 'NotFoundError') return undefined;
    throw cause;
  };
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
    names: async () => {
      const names: string[] = [];
      const entries = folder as unknown as { keys(): AsyncIterable<string> };
      for await (const name of entries.keys()) names.push(name);
      return names;
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

/** Does work under a lock of this name, which all tabs share. Without a lock if the browser has none. */
function alone(name: string, work: () => Promise<void>): Promise<void> {
  const { locks } = (globalThis.navigator ?? {}) as { locks?: LockManager };
  return locks ? locks.request(name, work) : work();
}

/** A unique name for bytes, which tells `sweep` their age. */
function itemName(key: string): string {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return `${key}.${Date.now()}-${[...random].map((n) => n.toString(16)).join('')}.bytes`;
}

/** A file name for an address. */
async function keyOf(url: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(url));
  return [...new Uint8Array(digest, 0, 16)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

