import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ShardCache } from '../src/cache.js';
import type { ShardReader } from '../src/shard.js';
import { isMissing } from '../src/source.js';
import type { Notice } from '../src/types.js';
import { Connections, FakeServer } from './fake_server.js';
import { bytesOf, FakeStore, QUICK, withLocks } from './fakes.js';

const url = 'https://models.test/a.gguf';

function setUp(bytes = bytesOf(10_500)) {
  const server = new FakeServer(bytes);
  const store = new FakeStore();
  const notices: Notice['code'][] = [];
  const cache = new ShardCache(store, (notice) => notices.push(notice.code), server.fetch, { patience: QUICK });
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
  assert.equal(second.from, 'cache');
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
  assert.equal(second.from, 'cache');
  assert.deepEqual(await all(second), server.body);
  assert.deepEqual(server.requests, ['HEAD', 'GET']);
});

test('a load that stops half way leaves what it has as a part, which is not taken for the file', async () => {
  const { server, store, cache } = setUp();
  server.stopAfter = 4000;
  const shard = await cache.reader(url);
  await assert.rejects(all(shard), { code: 'io' });
  await shard.close();
  assert.deepEqual([...store.items.keys()].map((name) => name.split('.').slice(-2).join('.')), ['part.json', '0.bytes']);
  server.online = false;
  await assert.rejects(all(await cache.reader(url)), { code: 'io' });
});

test('bytes whose record was never written are not read', async () => {
  const { server, store, cache } = setUp();
  await all(await cache.reader(url));
  for (const name of store.items.keys()) if (name.endsWith('.json')) store.items.delete(name);
  assert.equal((await cache.reader(url)).from, 'network');
  assert.equal(server.requests.length, 1);
});

test('a record that names another address, or is no record, leads to nothing', async () => {
  const { server, store, cache } = setUp();
  await all(await cache.reader(url));
  const name = [...store.items.keys()].find((name) => name.endsWith('.json'))!;
  const record = JSON.parse(await store.items.get(name)!.text()) as { url: string };
  for (const text of [JSON.stringify({ ...record, url: 'https://models.test/b.gguf' }), JSON.stringify(record).slice(0, -9), '']) {
    store.items.set(name, new Blob([text]));
    const shard = await cache.reader(url);
    assert.equal(shard.from, 'network', text);
    await shard.close();
  }
  store.items.set(name, new Blob([JSON.stringify(record)]));
  assert.equal((await cache.reader(url)).from, 'cache');
  assert.equal(server.requests.length, 2);
});

test('an entry of the wrong length is not read', async () => {
  const { store, cache } = setUp();
  await all(await cache.reader(url));
  for (const name of store.items.keys()) if (name.endsWith('.bytes')) store.items.set(name, new Blob(['short']));
  assert.equal((await cache.reader(url)).from, 'network');
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
  for (const [status, words] of [[404, '404 Not Found'], [410, '410 Gone']] as const) {
    server.status = status;
    server.requests = [];
    await assert.rejects(cache.reader(url), { code: 'io', what: `the server answered ${words}`, hint: 'check the address' });
    assert.deepEqual(server.requests, ['HEAD']);
  }
});

test('that the server has no such file is kept, and holds until there is one', async () => {
  const { server, store, notices, cache } = setUp();
  const none = async () => all(await cache.reader(url));
  server.online = false;
  await assert.rejects(none(), { code: 'io', what: 'the server could not be reached, in 2 tries' });
  server.online = true;
  server.status = 404;
  await assert.rejects(none(), isMissing);
  await cache.sweep();
  assert.equal(store.items.size, 1, 'a record alone');
  server.online = false;
  await assert.rejects(none(), isMissing);
  assert.deepEqual(notices, ['offline']);
  server.online = true;
  server.status = 200;
  assert.deepEqual(await none(), server.body);
  assert.equal((await cache.reader(url)).from, 'cache');
  server.online = false;
  assert.deepEqual(await none(), server.body);
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

/** The store's log without what only looks. */
const deeds = (store: FakeStore) => store.log.filter((line) => !/^(read|names)/.test(line));

test('the record is written after its bytes are closed, and the old bytes are removed after the new record', async () => {
  const { server, store, cache } = setUp();
  await all(await cache.reader(url));
  const part = ['write part', 'chunk part', 'close part'];
  const written = (n: number) => [...part, `write bytes ${n}`, `chunk bytes ${n}`, `close bytes ${n}`, 'write record', 'chunk record', 'close record', 'remove part'];
  assert.deepEqual(deeds(store), written(1));
  store.log = [];
  server.etag = '"v2"';
  await all(await cache.reader(url));
  assert.deepEqual(deeds(store), [...written(2), 'remove bytes 1']);
});

/** Another version, then a visit during which the storage fails as `fails` says; its log. */
async function failingVisit(fails: (n: number) => boolean) {
  const { server, store, notices, cache } = setUp();
  const first = server.body;
  await all(await cache.reader(url));
  server.etag = '"v2"';
  server.body = bytesOf(9000, 5);
  let asked = 0;
  const failed: string[] = [];
  store.fails = (operation) => {
    asked += 1;
    if (!fails(asked)) return undefined;
    failed.push(operation);
    return new DOMException(`cannot ${operation}`, 'UnknownError');
  };
  assert.deepEqual(await all(await cache.reader(url)), server.body, `the load goes on when the storage fails at ${failed.join(', ')}`);
  store.fails = () => undefined;
  return { server, store, notices, cache, first, failed };
}

for (const [name, from] of [['at one operation', false], ['at one operation and ever after', true]] as const) {
  test(`storage that fails ${name}: the load succeeds, and what is kept is one version whole`, async () => {
    const seen = new Set<string>();
    for (let n = 1; ; n += 1) {
      const fails = (asked: number) => (from ? asked >= n : asked === n);
      const { server, cache, first, failed, notices } = await failingVisit(fails);
      if (failed.length === 0) break;
      seen.add(failed[0]!);
      assert.ok(notices.every((code) => code === 'cache_unavailable'), notices.join());
      server.online = false;
      const kept = await all(await cache.reader(url));
      assert.ok([first, server.body].some((body) => Buffer.compare(body, kept) === 0), `no version after failing at ${failed.join(', ')}`);
      server.online = true;
      assert.deepEqual(await all(await cache.reader(url)), server.body, `the next visit, after failing at ${failed.join(', ')}`);
    }
    const visited = ['read record', 'read bytes 1', 'write bytes 2', 'chunk bytes 2', 'close bytes 2', 'write record', 'chunk record', 'close record', 'remove bytes 1', 'read part', 'write part', 'close part', 'remove part'];
    for (const operation of visited) assert.ok(seen.has(operation), `${operation} was never failed at: ${[...seen].join(', ')}`);
  });
}

test('old bytes that cannot be removed do not cost the new ones', async () => {
  const { store, cache, server, notices } = await failingVisit(() => false);
  server.etag = '"v3"';
  store.fails = (operation) => (operation === 'remove bytes 2' ? new DOMException('in use', 'NoModificationAllowedError') : undefined);
  await all(await cache.reader(url));
  assert.equal((await cache.reader(url)).from, 'cache');
  assert.deepEqual(notices, []);
});

test('of loads that keep the same shard at once, one leaves its bytes', async (t) => {
  withLocks(t);
  const { server, store, cache } = setUp();
  for (const etag of ['"v1"', '"v2"']) {
    server.etag = etag;
    await Promise.all([1, 2, 3].map(async () => all(await cache.reader(url))));
    assert.equal(store.items.size, 2, [...store.items.keys()].join());
    assert.equal((await cache.reader(url)).from, 'cache');
  }
});

test('bytes that cannot be closed get no record, are removed, and the notice says so', async () => {
  const { server, store, cache, notices } = setUp();
  store.fails = (operation) => (operation === 'close bytes 1' ? new DOMException('full', 'QuotaExceededError') : undefined);
  assert.deepEqual(await all(await cache.reader(url)), server.body);
  assert.deepEqual(notices, ['cache_full']);
  assert.equal(store.items.size, 0);
  assert.ok(!store.log.includes('write record'), store.log.join());
});

for (const [name, set] of Object.entries({ 'neither ETag nor date': { etag: null }, 'a date and no length': { etag: null, lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT', length: false } })) {
  test(`an answer with ${name} is not kept: nothing would tell a later version from it`, async () => {
    const { server, store, cache, notices } = setUp();
    Object.assign(server, set);
    await all(await cache.reader(url));
    assert.deepEqual(deeds(store), []);
    server.body = bytesOf(10_500, 9);
    assert.deepEqual(await all(await cache.reader(url)), server.body);
    assert.deepEqual(notices, []);
  });
}

test('Last-Modified alone, or a weak ETag, is enough to know a kept shard again', async () => {
  const versions: Partial<FakeServer>[][] = [
    [{ etag: null, lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT' }, { lastModified: 'Wed, 04 Nov 2026 10:00:00 GMT' }],
    [{ etag: 'W/"v1"' }, { etag: 'W/"v2"' }],
    [{ etag: null, lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT', exposed: [] }, { lastModified: 'Wed, 04 Nov 2026 10:00:00 GMT' }],
  ];
  for (const [before, after] of versions) {
    const { server, cache } = setUp();
    Object.assign(server, before);
    await all(await cache.reader(url));
    assert.equal((await cache.reader(url)).from, 'cache', JSON.stringify(before));
    Object.assign(server, after, { body: bytesOf(10_500, 3) });
    assert.deepEqual(await all(await cache.reader(url)), server.body, JSON.stringify(after));
  }
});

test('a server that answers 503 is as good as none: the kept copy is used, with a notice', async () => {
  for (const set of [{ head: 503 }, { head: 500 }, { status: 503 }, { head: 405, status: 503 }]) {
    const { server, cache, notices } = setUp();
    const { body } = server;
    await all(await cache.reader(url));
    Object.assign(server, set, { etag: '"v2"', body: new Uint8Array() });
    assert.deepEqual(await all(await cache.reader(url)), body, JSON.stringify(set));
    assert.deepEqual(notices, ['offline']);
  }
});

test('501 says nothing about the file: the server is asked for it', async () => {
  const { server, cache, notices } = setUp();
  await all(await cache.reader(url));
  server.head = 501;
  server.requests = [];
  assert.equal((await cache.reader(url)).from, 'cache');
  assert.deepEqual(server.requests, ['HEAD', 'GET']);
  assert.deepEqual(notices, []);
});

test('without a kept copy, 503 is an error', async () => {
  const { server, cache } = setUp();
  server.status = 503;
  await assert.rejects(all(await cache.reader(url)), { code: 'io', what: 'the server answered 503 Service Unavailable, in 3 tries' });
});

test('a signal that fires while the version is asked for is cancelled, not offline', async () => {
  const { server, cache, notices } = setUp();
  await all(await cache.reader(url));
  server.connections = new Connections(0); // it never answers
  const abort = new AbortController();
  setTimeout(() => abort.abort(), 5);
  for (const signal of [abort.signal, AbortSignal.abort()]) await assert.rejects(cache.reader(url, signal), { code: 'cancelled' });
  assert.deepEqual(notices, []);
});

test('a compressed answer is read whole; its length is not taken for the file\'s', async () => {
  const body = bytesOf(10_500).fill(7);
  for (const set of [{}, { exposed: [] }, { exposed: [], etag: null, lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT' }]) {
    const { server, cache, notices } = setUp(body);
    Object.assign(server, set, { gzip: true });
    const shard = await cache.reader(url);
    assert.deepEqual(await all(shard), body, JSON.stringify(set));
    assert.equal(shard.bytes, undefined, JSON.stringify(set));
    assert.deepEqual(notices, []);
    assert.deepEqual(await all(await cache.reader(url)), body, 'the second visit');
  }
});

test('a compressed answer of another origin is kept with the length that was read', async () => {
  const { server, cache } = setUp(bytesOf(10_500).fill(7));
  Object.assign(server, { exposed: [], etag: null, lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT', gzip: true });
  await all(await cache.reader(url));
  const second = await cache.reader(url);
  assert.equal(second.from, 'cache');
  assert.deepEqual(await all(second), server.body);
});

test('an answer that ends before the length that was claimed for it is not kept', async () => {
  const { server, store, cache } = setUp();
  Object.assign(server, { exposed: [], etag: null, lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT', stopAfter: 4000, stopsQuietly: true });
  assert.equal((await all(await cache.reader(url))).byteLength, 4000);
  assert.equal(store.items.size, 0);
});

test('ten kept shards of a server without HEAD are asked for on six connections', async () => {
  const store = new FakeStore();
  const connections = new Connections(6);
  const servers = Array.from({ length: 10 }, (_, i) => Object.assign(new FakeServer(bytesOf(5000, i)), { connections, head: 405 }));
  const fetcher = ((to: string, init: RequestInit) => servers[Number(to.at(-1))]!.fetch(to, init)) as typeof fetch;
  const cache = new ShardCache(store, () => {}, fetcher);
  const visit = async () => {
    const shards = await Promise.all(servers.map((_, i) => cache.reader(`https://models.test/${i}`)));
    for (const [i, shard] of shards.entries()) assert.deepEqual(await all(shard), servers[i]!.body);
  };
  await visit();
  for (const server of servers) server.etag = '"v2"'; // each is read anew, one after the other
  await visit();
});
