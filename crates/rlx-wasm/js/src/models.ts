/** The models that are stored: files by their addresses. */

import type { Models, StoredFile, StoredModel } from './models_types.js';
import { Records } from './records.js';
import { openStore } from './store.js';

/** The address of the model that a file is of: its own without a shard's number, or its folder's. */
export function modelOf(url: string): string {
  const [address, query] = url.split('?');
  if (!/\.gguf$/i.test(address!)) return address!.replace(/[^/]*$/, '');
  return address!.replace(/-\d{5}-of-\d{5}(?=\.gguf$)/i, '') + (query === undefined ? '' : `?${query}`);
}

/** Removes a model's files; whether there were any. */
export async function remove(records: Records, id: string): Promise<boolean> {
  const found = (await records.all()).filter(({ record }) => modelOf(record.url) === id);
  for (const { key, kind } of found) await records.remove(key, kind);
  return found.some(({ record }) => record.item !== null);
}

/** The stored models, the last used one first. */
export async function list(records: Records): Promise<StoredModel[]> {
  const models = new Map<string, StoredModel>();
  for (const { kind, record } of await records.all()) {
    if (record.item === null) continue;
    const id = modelOf(record.url);
    const model = models.get(id) ?? { id, bytes: 0, lastUsed: new Date(0), complete: true, files: [] };
    models.set(id, model);
    const complete = kind === 'whole';
    const bytes = (await records.pieces(record.item)).size;
    const total = record.bytes ?? record.claimed;
    const file: StoredFile = { url: record.url, bytes, complete };
    if (total !== undefined) file.totalBytes = total;
    if (complete && record.sha256 !== undefined) file.sha256 = record.sha256;
    model.files.push(file);
    model.bytes += bytes;
    model.complete &&= complete;
    if (record.used > model.lastUsed.getTime()) model.lastUsed = new Date(record.used);
  }
  return [...models.values()].sort((a, b) => b.lastUsed.getTime() - a.lastUsed.getTime());
}

const opened = async () => {
  const store = await openStore();
  return store && new Records(store);
};

export const models: Models = {
  async list() {
    const records = await opened();
    return records ? list(records) : [];
  },
  async delete(id) {
    const records = await opened();
    return records ? remove(records, id) : false;
  },
  async persist() {
    return await globalThis.navigator?.storage?.persist?.() ?? false;
  },
  async usage() {
    const storage = globalThis.navigator?.storage as StorageManager | undefined;
    const { usage, quota }: StorageEstimate = await storage?.estimate?.() ?? {};
    return {
      bytes: (await this.list()).reduce((sum, { bytes }) => sum + bytes, 0),
      ...(usage !== undefined && { originBytes: usage }),
      ...(quota !== undefined && { quotaBytes: quota }),
      persisted: await storage?.persisted?.() ?? false,
    };
  },
};
