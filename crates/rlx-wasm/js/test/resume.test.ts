/** Downloads that are continued, shared by loads, checked, and kept within the room there is. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { ShardCache } from '../src/cache.js';
import type { CacheOptions } from '../src/cache.js';
import { list, modelOf, remove } from '../src/models.js';
import { Records, unsigned } from '../src/records.js';
import { hexOf, Sha256 } from '../src/sha256.js';
import type { ShardReader } from '../src/shard.js';
import type { Notice } from '../src/types.js';
import { FakeServer } from './fake_server.js';
import { bytesOf, FakeStore, QUICK, withLocks } from './fakes.js';

const MIB = 1 << 20;
const url = 'https://models.test/a.gguf';

function setUp(bytes = bytesOf(5 * MIB), options: CacheOptions = {}) {
  const server = Object.assign(new FakeServer(bytes), { chunkBytes: 100_000 });
  const store = new FakeStore();
  const notices: Notice['code'][] = [];
  /** A cache is what one load has. */
  const cache = () => new ShardCache(store, ({ code }) => notices.push(code), server.fetch, { patience: QUICK, ...options });
  return { server, store, notices, cache };
}

async function read(shard: ShardReader, until = Infinity): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  while (shard.position < until) {
    const chunk = await shard.read();
    if (!chunk) break;
    parts.push(chunk.slice() as Uint8Array<ArrayBuffer>);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

async function all(shard: ShardReader): Promise<Uint8Array> {
  try {
    return await read(shard);
  } finally {
    await shard.close();
  }
}

test('a load that ended without a word is continued behind its last piece', async () => {
  const { server, store, cache } = setUp();
  await read(await cache().reader(url), 3.5 * MIB); // and never closed
  server.requests = [];
  const shard = await cache().reader(url);
  assert.deepEqual(await all(shard), server.body);
  const [asked, from] = /^GET bytes=(\d+)-$/.exec(server.requests[1]!)!;
  assert.deepEqual(server.requests, ['HEAD', asked]);
  assert.ok(Number(from) >= 3 * MIB, from);
  const second = await cache().reader(url);
  assert.equal(second.from, 'cache');
  assert.deepEqual(await all(second), server.body);
  assert.ok(![...store.items.keys()].some((name) => name.endsWith('.part.json')));
});

test('a load that was cancelled loses nothing', async () => {
  const { server, cache } = setUp();
  const shard = await cache().reader(url);
  await read(shard, 2.5 * MIB);
  const { position } = shard;
  await shard.close();
  server.requests = [];
  assert.deepEqual(await all(await cache().reader(url)), server.body);
  assert.deepEqual(server.requests, ['HEAD', `GET bytes=${position}-`]);
});

for (const [name, change] of Object.entries<(server: FakeServer, store: FakeStore) => void>({
  'another version': (server) => Object.assign(server, { etag: '"v2"', body: bytesOf(5 * MIB, 3) }),
  'a record of another address': (_, store) => {
    const [key] = [...store.items].find(([name]) => name.endsWith('.part.json'))!;
    store.items.set(key, new Blob([JSON.stringify({ url: 'https://models.test/b.gguf', validator: 'etag:"v1"', item: 'x', used: 1 })]));
  },
  'a record that is none': (_, store) => {
    for (const name of store.items.keys()) if (name.endsWith('.part.json')) store.items.set(name, new Blob(['{"url":']));
  },
  'no pieces': (_, store) => {
    for (const name of store.items.keys()) if (name.endsWith('.bytes')) store.items.delete(name);
  },
  'a first piece that was never closed': (_, store) => {
    for (const name of store.items.keys()) if (name.endsWith('.0.bytes')) store.items.set(name, new Blob());
  },
})) {
  test(`a part with ${name} is begun again`, async () => {
    const { server, store, cache } = setUp();
    const shard = await cache().reader(url);
    await read(shard, 2.5 * MIB);
    await shard.close();
    change(server, store);
    assert.deepEqual(await all(await cache().reader(url)), server.body);
    assert.equal((await cache().reader(url)).from, 'cache');
  });
}

test('a part of a server without strong ETags is compared with the whole, and a changed one is dropped', async () => {
  for (const changed of [false, true]) {
    const { server, cache } = setUp();
    Object.assign(server, { etag: null, lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT' });
    await read(await cache().reader(url), 3.5 * MIB);
    if (changed) server.body = bytesOf(5 * MIB, 9);
    if (changed) await assert.rejects(cache().reader(url).then(all), { what: 'the file changed on the server while it was loading' });
    assert.deepEqual(await all(await cache().reader(url)), server.body);
    assert.equal((await cache().reader(url)).from, 'cache');
  }
});

test('a kept copy whose pieces vanish while it is read goes on from the server', async () => {
  const { server, store, cache } = setUp();
  await all(await cache().reader(url));
  const shard = await cache().reader(url);
  const begin = await read(shard, MIB);
  // As a file that was removed: what was not read yet cannot be read any more.
  const { slice } = Blob.prototype;
  await shard.pause();
  Blob.prototype.slice = function (...args) {
    const blob = slice.apply(this, args);
    blob.stream = () => new ReadableStream({ pull: (out) => out.error(new DOMException('gone', 'NotFoundError')) });
    return blob;
  };
  try {
    server.requests = [];
    const rest = await read(shard);
    assert.deepEqual(new Uint8Array([...begin, ...rest]), server.body);
    assert.deepEqual(server.requests, [`GET bytes=${begin.byteLength}-`]);
  } finally {
    Blob.prototype.slice = slice;
  }
  assert.ok(store.items.size > 0);
});

test('two loads at once: one downloads, both read', { timeout: 20_000 }, async (t) => {
  withLocks(t);
  const { server, cache } = setUp();
  const first = await cache().reader(url);
  const second = await cache().reader(url);
  const both = await Promise.all([all(first), all(second)]);
  for (const bytes of both) assert.deepEqual(bytes, server.body);
  assert.deepEqual(server.requests.filter((line) => line.startsWith('GET')), ['GET']);
});

test('a load that waits for another one takes over when that ends', { timeout: 20_000 }, async (t) => {
  withLocks(t);
  const { server, cache } = setUp();
  const first = await cache().reader(url);
  await read(first, 2.5 * MIB);
  const second = all(await cache().reader(url));
  const { position } = first;
  setTimeout(() => void first.close(), 300);
  assert.deepEqual(await second, server.body);
  assert.deepEqual(server.requests.filter((line) => line.startsWith('GET')), ['GET', `GET bytes=${position}-`]);
  assert.equal((await cache().reader(url)).from, 'cache');
});

test('where locks are denied, a load downloads at once', { timeout: 5000 }, async (t) => {
  withLocks(t);
  const { server, cache } = setUp();
  const { locks } = navigator as unknown as { locks: { request: unknown } };
  const { request } = locks as { request: (name: string, ...rest: unknown[]) => unknown };
  locks.request = async (name: string, ...rest: unknown[]) => {
    if (name.endsWith('/load')) throw new DOMException('denied', 'SecurityError');
    return request(name, ...rest);
  };
  assert.deepEqual(await all(await cache().reader(url)), server.body);
});

test('a load that was cancelled while it waits leaves the turn to others', { timeout: 20_000 }, async (t) => {
  withLocks(t);
  const { server, cache } = setUp();
  const first = await cache().reader(url);
  const abort = new AbortController();
  const waiting = (await cache().reader(url, abort.signal));
  const ended = assert.rejects(all(waiting), { code: 'cancelled' });
  setTimeout(() => abort.abort(), 150);
  await ended;
  await read(first, MIB);
  await first.close();
  assert.deepEqual(await all(await cache().reader(url)), server.body);
});

test('SHA-256 is that of the standard, however the bytes are cut', () => {
  for (const n of [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 100_003]) {
    const bytes = bytesOf(n, n);
    const right = createHash('sha256').update(bytes).digest('hex');
    for (const cut of [1, 7, 64, 100, 1 << 20]) {
      const hash = new Sha256();
      for (let at = 0; at < n; at += cut) hash.update(bytes.subarray(at, at + cut));
      assert.equal(hash.hex(), right, `${n} bytes in pieces of ${cut}`);
    }
  }
});

test('hashes are written in two ways', () => {
  const hash = createHash('sha256').update('a');
  const digest = hash.digest();
  assert.equal(hexOf(digest.toString('hex').toUpperCase()), digest.toString('hex'));
  assert.equal(hexOf(`sha256-${digest.toString('base64')}`), digest.toString('hex'));
  for (const wrong of ['', 'sha256-abc', `sha512-${digest.toString('base64')}`, digest.toString('hex').slice(1), 7, null]) assert.equal(hexOf(wrong), undefined);
});

const hashOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

test('a file with another hash is bad_file, and nothing of it is kept', async () => {
  const { server, store, cache } = setUp();
  await assert.rejects(cache().reader(url, undefined, hashOf(bytesOf(3))).then(all), {
    code: 'bad_file', what: `the file's SHA-256 is ${hashOf(server.body)}, it must be ${hashOf(bytesOf(3))}`,
  });
  assert.deepEqual([...store.items.keys()], []);
  assert.deepEqual(await all(await cache().reader(url, undefined, hashOf(server.body))), server.body);
  const [model] = await list(new Records(store));
  assert.equal(model!.files[0]!.sha256, hashOf(server.body));
});

test('a hash that was found is not computed again; a kept file without one is hashed, and goes if it is wrong', async () => {
  const { server, store, cache } = setUp(bytesOf(20_000));
  await all(await cache().reader(url));
  const sha256 = hashOf(server.body);
  await all(await cache().reader(url, undefined, sha256));
  const { update } = Sha256.prototype;
  Sha256.prototype.update = () => assert.fail('hashed again');
  try {
    assert.equal((await all(await cache().reader(url, undefined, sha256))).byteLength, 20_000);
  } finally {
    Sha256.prototype.update = update;
  }
  // The hash that is known now is not the one wanted: the server is asked, whose file is not it either.
  await assert.rejects(cache().reader(url, undefined, hashOf(bytesOf(1))).then(all), { code: 'bad_file' });
  assert.equal((await cache().reader(url)).from, 'cache');
  for (const name of store.items.keys()) if (name.endsWith('.0.bytes')) store.items.set(name, new Blob([bytesOf(20_000, 77)]));
  for (const [name, blob] of store.items) {
    if (name.endsWith('.json')) store.items.set(name, new Blob([(await blob.text()).replace(/,"sha256":"\w+"/, '')]));
  }
  await assert.rejects(cache().reader(url, undefined, sha256).then(all), { code: 'bad_file' });
  assert.deepEqual([...store.items.keys()], []);
});

test('the hash that the Hub says is checked', async () => {
  const body = bytesOf(20_000);
  for (const right of [true, false]) {
    const { server, cache } = setUp(body);
    const { fetch } = server;
    server.fetch = async (...args) => {
      const response = await fetch(...args);
      response.headers.set('x-linked-etag', `"${hashOf(right ? body : bytesOf(1))}"`);
      return response;
    };
    const loading = cache().reader(url).then(all);
    if (right) assert.deepEqual(await loading, body);
    else await assert.rejects(loading, { code: 'bad_file' });
  }
});

test('a model for which there is no room is loaded and not kept; with makeRoom those used longest ago go, and none in vain', async () => {
  const old = 'https://models.test/old-00001-of-00002.gguf';
  const newer = 'https://models.test/newer.gguf';
  const QUOTA = 2500;
  // `told`: the browser's estimate says what room there is; else only trying does.
  for (const [makeRoom, size, told] of [[false, 1000, true], [true, 1000, true], [true, 1000, false], [true, 3000, true], [true, 3000, false]] as const) {
    const used = () => [...store.items].reduce((sum, [name, { size }]) => sum + (name.endsWith('.bytes') ? size : 0), 0);
    const { server, store, notices, cache } = setUp(bytesOf(1000), {
      makeRoom, estimate: async () => ({ quota: told ? QUOTA : Infinity, usage: used() }),
    });
    if (!told) store.holds = async (bytes) => bytes <= QUOTA - used();
    for (const [age, address] of [[9, old], [5, newer]] as const) {
      await all(await cache().reader(address));
      for (const [name, blob] of store.items) {
        const record = name.endsWith('.json') ? JSON.parse(await blob.text()) as { url: string } : undefined;
        if (record?.url === address) store.items.set(name, new Blob([JSON.stringify({ ...record, used: Date.now() - age * 3600_000 })]));
      }
    }
    server.body = bytesOf(size);
    assert.deepEqual(await all(await cache().reader(url)), server.body);
    const kept = (await list(new Records(store))).map(({ id }) => id);
    const made = makeRoom && size < QUOTA;
    assert.deepEqual(kept, made ? [url, newer] : [newer, modelOf(old)]);
    assert.deepEqual(notices, made ? [] : ['cache_full']);
  }
});

test('a page (200, HTML) does not replace the kept copy', async () => {
  const { server, notices, cache } = setUp(bytesOf(9000));
  await all(await cache().reader(url));
  const { body, fetch } = server;
  server.fetch = async (...args) => {
    const response = await fetch(...args);
    return new Response(args[1]?.method === 'HEAD' ? null : '<html>', { headers: { ...Object.fromEntries(response.headers), 'content-type': 'text/html' } });
  };
  server.etag = '"login"';
  const shard = await cache().reader(url);
  assert.equal(shard.from, 'cache');
  assert.deepEqual(await all(shard), body);
  assert.deepEqual(notices, ['offline']);
});

test('signed addresses are one file; other queries are not', async () => {
  const base = 'https://bucket.test/a.gguf';
  for (const query of ['X-Amz-Date=1&X-Amz-Signature=ab', 'Expires=12&Signature=x&Key-Pair-Id=k', 'sv=2024&se=1&sig=x', 'X-Goog-Signature=7']) {
    assert.equal(unsigned(`${base}?${query}`), base);
  }
  for (const query of ['download=true', 'versionId=7', 'signal=1']) assert.equal(unsigned(`${base}?${query}`), `${base}?${query}`);
  const { server, store, cache } = setUp(bytesOf(9000));
  await all(await cache().reader(`${base}?X-Amz-Signature=1`));
  const second = await cache().reader(`${base}?X-Amz-Signature=2`);
  assert.equal(second.from, 'cache');
  server.etag = '"v2"';
  server.body = bytesOf(9000, 2);
  assert.deepEqual(await all(await cache().reader(`${base}?X-Amz-Signature=3`)), server.body);
  const [model] = await list(new Records(store));
  assert.equal(model!.id, base, 'no signature is stored');
});

test('stored models are listed by address, complete or in part, and removed', async () => {
  const { server, store, cache } = setUp();
  const shards = [1, 2].map((n) => `https://models.test/big-0000${n}-of-00002.gguf`);
  await all(await cache().reader(shards[0]!));
  const second = await cache().reader(shards[1]!);
  await read(second, 2 * MIB);
  await second.close();
  for (const name of ['config.json', 'model.safetensors']) await all(await cache().reader(`https://models.test/folder/${name}`));
  server.status = 404;
  await assert.rejects(all(await cache().reader('https://models.test/folder/tokenizer.model')));
  const records = new Records(store);
  const models = await list(records);
  const named = (id: string) => models.find((model) => model.id === id)!;
  assert.deepEqual(models.map(({ id }) => id).sort(), ['https://models.test/big.gguf', 'https://models.test/folder/']);
  const big = named('https://models.test/big.gguf');
  assert.equal(big.complete, false);
  assert.deepEqual(big.files.map(({ complete, totalBytes }) => [complete, totalBytes]), [[true, 5 * MIB], [false, 5 * MIB]]);
  assert.equal(big.bytes, 5 * MIB + second.position);
  assert.equal(named('https://models.test/folder/').complete, true);
  assert.equal(await remove(records, big.id), true);
  assert.equal(await remove(records, big.id), false);
  assert.deepEqual((await list(records)).map(({ id }) => id), ['https://models.test/folder/']);
  assert.equal(await remove(records, 'https://models.test/folder/'), true);
  assert.deepEqual([...store.items.keys()], []);
});

test('parts that nobody continues are swept after a week, with their pieces', async () => {
  const { store, cache } = setUp();
  const shard = await cache().reader(url);
  await read(shard, 2 * MIB);
  await shard.close();
  const day = 24 * 3600 * 1000;
  await cache().sweep(Date.now() + 6 * day);
  assert.ok(store.items.size > 0);
  await cache().sweep(Date.now() + 8 * day);
  assert.deepEqual([...store.items.keys()], []);
});
