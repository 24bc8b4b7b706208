/** Which of a browser's storages is taken. The storages themselves are tested in Chromium (tests/browser/cache.test.mjs). */

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { Records } from '../src/records.js';
import { openStore } from '../src/store.js';

/** A folder of the origin private file system; a file that is being written cannot be removed. */
class FakeFolder {
  files = new Map<string, Blob>();
  #open = new Map<string, number>();

  async getDirectoryHandle() {
    return this;
  }

  async getFileHandle(name: string, { create = false } = {}) {
    await turn();
    if (!this.files.has(name)) {
      if (!create) throw new DOMException(name, 'NotFoundError');
      this.files.set(name, new Blob());
    }
    return { getFile: async () => this.files.get(name), createWritable: () => this.#writable(name) };
  }

  async #writable(name: string) {
    await turn();
    if (!this.files.has(name)) throw new DOMException(name, 'NotFoundError');
    this.#open.set(name, (this.#open.get(name) ?? 0) + 1);
    const parts: BlobPart[] = [];
    return {
      write: async (part: BlobPart) => void parts.push(part),
      close: async () => {
        await turn();
        this.files.set(name, new Blob(parts));
        this.#open.set(name, this.#open.get(name)! - 1);
      },
      abort: async () => this.#open.set(name, this.#open.get(name)! - 1),
    };
  }

  async removeEntry(name: string) {
    await turn();
    if (!this.files.has(name)) throw new DOMException(name, 'NotFoundError');
    if (this.#open.get(name)) throw new DOMException(name, 'NoModificationAllowedError');
    this.files.delete(name);
  }

  async *keys() {
    yield* this.files.keys();
  }
}

const turn = () => new Promise<void>((resolve) => setTimeout(resolve, 1));

const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
afterEach(() => {
  if (before) Object.defineProperty(globalThis, 'navigator', before);
  else delete (globalThis as { navigator?: unknown }).navigator;
});

/** The page's storage, with no Cache API beside it: what is not kept in the folder is kept nowhere. */
function page(folder: FakeFolder): void {
  Object.defineProperty(globalThis, 'navigator', { configurable: true, value: { storage: { getDirectory: async () => folder } } });
}

test('loads that start at once all keep in the file system, and leave no probe in it', async () => {
  const folder = new FakeFolder();
  page(folder);
  const opening = Array.from({ length: 5 }, async (_, i) => {
    for (let n = 0; n < i; n += 1) await turn();
    return openStore();
  });
  const stores = await Promise.all(opening);
  assert.deepEqual(stores.map((store) => store !== undefined), [true, true, true, true, true]);
  assert.deepEqual([...folder.files.keys()], []);
});

test('a probe that cannot be removed is no reason to keep nothing, and is swept later', async () => {
  const folder = new FakeFolder();
  page(folder);
  const { removeEntry } = folder;
  folder.removeEntry = async (name) => {
    throw new DOMException(name, 'NoModificationAllowedError');
  };
  const store = await openStore();
  assert.ok(store);
  assert.equal(folder.files.size, 1);
  folder.removeEntry = removeEntry;
  await new Records(store).sweep(Date.now() + 48 * 3600 * 1000);
  assert.equal(folder.files.size, 0);
});

test('a file system that takes no bytes is not taken', async () => {
  const folder = new FakeFolder();
  page(folder);
  folder.getFileHandle = async () => ({ getFile: async () => undefined, createWritable: undefined as never });
  assert.equal(await openStore(), undefined);
});

test('an item that is not there is nothing, to read or to remove; other faults are told', async () => {
  const folder = new FakeFolder();
  page(folder);
  const store = (await openStore())!;
  assert.equal(await store.read('none'), undefined);
  await store.remove('none');
  const out = await store.write('some');
  await out.write(Uint8Array.of(1, 2));
  await assert.rejects(store.remove('some'), { name: 'NoModificationAllowedError' });
  await out.close();
  assert.equal((await store.read('some'))?.size, 2);
  assert.deepEqual(await store.names(), ['some']);
});
