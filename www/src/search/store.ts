/**
 * Vectors that are kept in this browser, by what a file says and by the model that read it. A file that has changed
 * has another name here. Texts are not kept.
 */

import { openDB } from 'idb';
import type { IDBPDatabase } from 'idb';

const NAME = 'rlx-demo-search';
const VECTORS = 'vectors';

interface Kept {
  vectors: Float32Array;
  truncated: number;
}

let opened: Promise<IDBPDatabase | undefined> | undefined;
/** The base; undefined where the browser keeps nothing for this page. */
const base = () =>
  (opened ??= openDB(NAME, 1, { upgrade: (made) => void made.createObjectStore(VECTORS) }).catch(() => undefined));

/** SHA-256 in hexadecimal; undefined where the page's address is not a secure one, and hashes are not there. */
export async function hash(content: string | Float32Array<ArrayBuffer>): Promise<string | undefined> {
  if (!globalThis.crypto?.subtle) return undefined;
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The name of a file's vectors. It says how many bytes they have, so that adding up reads no vectors. */
export const keyOf = (model: string, content: string, bytes: number): string => `${model} ${content} ${bytes}`;

/** What is kept under a name, if it has as many numbers as it should. */
export async function get(key: string, length: number): Promise<Kept | undefined> {
  try {
    const kept = (await (await base())?.get(VECTORS, key)) as Partial<Kept> | undefined;
    const whole =
      kept?.vectors instanceof Float32Array && kept.vectors.length === length && Number.isInteger(kept.truncated);
    return whole ? (kept as Kept) : undefined;
  } catch {
    return undefined; // it is computed again
  }
}

/** Keeps vectors; false where there is no room or no store. */
export async function put(key: string, kept: Kept): Promise<boolean> {
  try {
    const store = await base();
    await store?.put(VECTORS, kept, key);
    return store !== undefined;
  } catch {
    return false;
  }
}

/** How many bytes of vectors are kept. */
export async function keptBytes(): Promise<number> {
  try {
    const keys = (await (await base())?.getAllKeys(VECTORS)) ?? [];
    return keys.reduce<number>((sum, key) => sum + (Number(String(key).split(' ')[2]) || 0), 0);
  } catch {
    return 0;
  }
}

export async function forget(): Promise<void> {
  await (await base())?.clear(VECTORS);
}
