import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ShardCache } from '../src/cache.js';
import type { ShardReader } from '../src/shard.js';
import type { Notice } from '../src/types.js';
import { FakeServer } from './fake_server.js';
import { bytesOf, FakeStore } from './fakes.js';

const url = 'https://models.test/a.gguf';

function setUp(bytes = bytesOf(10_500)) {
  const server = new FakeServer(bytes);
  const store = new FakeStore();
  const notices: Notice['code'][] = [];
  const cache = new ShardCache(store, (notice) => notices.push(notice.code), server.fetch);
  return { server, store, notices, cache };
}

async function all(shard: ShardReader): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let chunk = await shard.read(); chunk; chunk = await shard.read()) parts.push(chunk.slice() as Uint8Array<ArrayBuffer>);
  await shard.close();
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

test('a second visit asks for the version and nothing else', async () => {
  const { server, cache } = setUp();
  assert.deepEqual(await all(await cache.reader(url)), server.body);
  server.requests = [];
  const second = await cache.reader(url);
  assert.equal(second.source.kind, 'cache');
  assert.deepEqual(await all(second), server.body);
  assert.deepEqual(server.requests, ['HEAD']);
});

test('a new version replaces the kept one, bytes and record', async () => {
  const { server, store, cache } = setUp();
  await all(await cache.reader(url));
  server.etag = '"v2"';
  server.body = bytesOf(9000, 5);
  assert.deepEqual(await all(await cache.reader(url)), server.body);
  assert.equal(store.items.size, 2);
  assert.deepEqual(await all(await cache.reader(url)), server.body);
});

test('without a server the kept copy is used, with a notice', async () => {
  const { server, notices, cache } = setUp();
  await all(await cache.reader(url));
  server.online = false;
  assert.deepEqual(await all(await cache.reader(url)), server.body);
  assert.deepEqual(notices, ['offline']);
});

test('a server without HEAD is asked for the file, whose body is left when it is the same', async () => {
  const { server, cache } = setUp();
  await all(await cache.reader(url));
  server.head = 405;
  server.requests = [];
  const second = await cache.reader(url);
  assert.equal(second.source.kind, 'cache');
  assert.deepEqual(await all(second), server.body);
  assert.deepEqual(server.requests, ['HEAD', 'GET']);
});

test('a load that stops half way leaves nothing', async () => {
  const { server, store, cache } = setUp();
  server.stopAfter = 4000;
  const shard = await cache.reader(url);
  await assert.rejects(all(shard), { code: 'io' });
  await shard.close();
  assert.equal(store.items.size, 0);
});

test('bytes whose record was never written are not read', async () => {
  const { server, store, cache } = setUp();
  await all(await cache.reader(url));
  for (const name of store.items.keys()) if (name.endsWith('.json')) store.items.delete(name);
  assert.equal((await cache.reader(url)).source.kind, 'network');
  assert.equal(server.requests.length, 1);
});

test('an entry of the wrong length is not read', async () => {
  const { store, cache } = setUp();
  await all(await cache.reader(url));
  for (const name of store.items.keys()) if (name.endsWith('.bytes')) store.items.set(name, new Blob(['short']));
  assert.equal((await cache.reader(url)).source.kind, 'network');
});

test('a full quota ends the keeping, with a notice, and not the loading', async () => {
  const { server, store, notices, cache } = setUp();
  store.quota = 3000;
  assert.deepEqual(await all(await cache.reader(url)), server.body);
  assert.deepEqual(notices, ['cache_full']);
  assert.equal(store.items.size, 0);
});

test('a store that refuses to write is a notice, not an error', async () => {
  const { server, store, notices, cache } = setUp();
  store.write = async () => {
    throw new DOMException('denied', 'SecurityError');
  };
  assert.deepEqual(await all(await cache.reader(url)), server.body);
  assert.deepEqual(notices, ['cache_unavailable']);
});

test('a kept shard that the server no longer has is an error', async () => {
  const { server, cache } = setUp();
  await all(await cache.reader(url));
  server.head = 404;
  await assert.rejects(cache.reader(url), { code: 'io', what: 'the server answered 404 Not Found' });
});

test('sweeping removes bytes without a record after a day, and keeps the rest', async () => {
  const { server, store, cache } = setUp();
  await all(await cache.reader(url));
  const hour = 3600 * 1000;
  store.items.set(`x.${Date.now() - hour}-ab.bytes`, new Blob(['in another tab']));
  store.items.set(`y.${Date.now() - 30 * hour}-ab.bytes`, new Blob(['died']));
  await cache.sweep();
  assert.equal(store.items.size, 3);
  await cache.sweep(Date.now() + 100 * hour);
  assert.equal(store.items.size, 2);
  assert.deepEqual(await all(await cache.reader(url)), server.body);
});
