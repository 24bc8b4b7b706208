/**
 * What the store has, and under which names.
 *
 * A file is pieces, each an item of its own, in order: a piece appears with all its bytes when it is closed, so a
 * page that ends loses the piece that it was writing and no more. `KEY.part.json` is the record of a file that is
 * not complete, `KEY.json` that of one that is; it may be there for one version while the next is loading.
 */

import type { Version } from './source.js';
import { FOLDER } from './store.js';
import type { Store } from './store.js';

/** A record: what a file is, and the common name of its pieces. */
export interface Record {
  url: string;
  validator: string;
  /** Its length; of a file that is not complete, if the server said it for sure. */
  bytes?: number;
  claimed?: number;
  sha256?: string;
  /** Null if the server had no such file. */
  item: string | null;
  /** When it was last loaded, in milliseconds since 1970. */
  used: number;
}

export type Kind = 'whole' | 'part';

/** Pieces without a record belong to a load in another tab, or to one that died. After a day it has died. */
const ORPHAN_MS = 24 * 3600 * 1000;
/** A file that is not complete is waited for so long to be loaded again. */
const PART_MS = 7 * ORPHAN_MS;
/** How old a time of last use may be, so that not each load writes it. */
const USED_MS = 3600 * 1000;

const SUFFIX = { whole: '.json', part: '.part.json' };

export class Records {
  constructor(readonly store: Store) {}

  /** The record under a key, if it is of this address. */
  async get(key: string, url: string, kind: Kind): Promise<Record | undefined> {
    const record = await this.#read(key + SUFFIX[kind]);
    return record?.url === url ? record : undefined;
  }

  /** Every record. */
  async all(): Promise<{ key: string; kind: Kind; record: Record }[]> {
    const found = [];
    for (const name of await this.store.names()) {
      const [, key, part] = /^([^.]+)(\.part)?\.json$/.exec(name) ?? [];
      const record = key !== undefined && await this.#read(name);
      if (record) found.push({ key: key!, kind: part ? 'part' as const : 'whole' as const, record });
    }
    return found;
  }

  /** Writes a record in place of the one before it, whose pieces are removed. */
  put(key: string, record: Record, kind: Kind): Promise<void> {
    return alone(`${FOLDER}/${key}`, async () => {
      const old = await this.#read(key + SUFFIX[kind]);
      const json = await this.store.write(key + SUFFIX[kind]);
      await json.write(new TextEncoder().encode(JSON.stringify(record)));
      await json.close();
      const part = kind === 'whole' ? await this.#read(key + SUFFIX.part).catch(() => undefined) : undefined;
      if (part) await this.store.remove(key + SUFFIX.part).catch(() => {});
      // Pieces that another tab is reading may stay; `sweep` finds them later.
      for (const other of [old, part]) {
        if (other?.item && other.item !== record.item) await this.removePieces(other.item).catch(() => {});
      }
    });
  }

  /** Removes a record, and its pieces. */
  remove(key: string, kind: Kind): Promise<void> {
    return alone(`${FOLDER}/${key}`, async () => {
      const old = await this.#read(key + SUFFIX[kind]);
      await this.store.remove(key + SUFFIX[kind]);
      if (old?.item) await this.removePieces(old.item);
    });
  }

  /** Notes that a file was used. */
  async use(key: string, record: Record): Promise<void> {
    const now = Date.now();
    if (now - record.used > USED_MS) await this.put(key, { ...record, used: now }, 'whole').catch(() => {});
  }

  /** The piece of this number, once it is complete. */
  async piece(item: string, n: number): Promise<Blob | undefined> {
    const blob = await this.store.read(pieceName(item, n));
    return blob && blob.size > 0 ? blob : undefined;
  }

  /** All pieces that are complete. */
  async pieces(item: string): Promise<Blob> {
    const pieces: Blob[] = [];
    for (;;) {
      const piece = await this.piece(item, pieces.length);
      if (!piece) return new Blob(pieces);
      pieces.push(piece);
    }
  }

  async removePieces(item: string): Promise<void> {
    const names = (await this.store.names()).filter((name) => name.startsWith(`${item}.`));
    for (const name of names) await this.store.remove(name);
  }

  /** Removes what no load will use: pieces without a record, and files that were left incomplete, after a while. */
  async sweep(now = Date.now()): Promise<void> {
    const named = new Set<string>();
    for (const { key, kind, record } of await this.all()) {
      if (kind === 'part' && record.used < now - PART_MS) await this.remove(key, kind);
      else named.add(record.item ?? '');
    }
    for (const name of await this.store.names()) {
      const [, item, written] = /^([^.]+\.(\d+)-[0-9a-f]+)(?:\.|$)/.exec(name) ?? [];
      if (Number(written) < now - ORPHAN_MS && !named.has(item!)) await this.store.remove(name);
    }
  }

  async #read(name: string): Promise<Record | undefined> {
    const blob = await this.store.read(name);
    if (!blob) return undefined;
    try {
      const record = JSON.parse(await blob.text()) as Record;
      return typeof record?.url === 'string' && typeof record.used === 'number' ? record : undefined;
    } catch {
      return undefined;
    }
  }
}

export const pieceName = (item: string, n: number): string => `${item}.${n}.bytes`;

/** What a record says of the file's version. */
export const versionIn = ({ validator, bytes, claimed, sha256 }: Record): Version => ({
  validator,
  ...(bytes !== undefined && { bytes }),
  ...(claimed !== undefined && { claimed }),
  ...(sha256 !== undefined && { sha256 }),
});

/** A file name for an address. */
export async function keyOf(url: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(url));
  return [...new Uint8Array(digest, 0, 16)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * The address under which a file is kept: without a query that signs it, which is another each time. Whether it is
 * the same file the validator says, as for every address.
 */
export function unsigned(url: string): string {
  const [address, query = ''] = url.split('#')[0]!.split('?');
  const names = [...new URLSearchParams(query).keys()].map((name) => name.toLowerCase());
  const signs = names.some((name) => ['x-amz-signature', 'x-goog-signature', 'signature', 'sig'].includes(name));
  return signs ? address! : url;
}

/** Does work under a lock of this name, which all tabs share. Without a lock if the browser has none. */
function alone(name: string, work: () => Promise<void>): Promise<void> {
  const { locks } = (globalThis.navigator ?? {}) as { locks?: LockManager };
  return locks ? locks.request(name, work) : work();
}
