import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load, Placer } from '../src/loader.js';
import { ShardReader } from '../src/shard.js';
import { BlobSource, UrlSource } from '../src/source.js';
import type { LoadProgress } from '../src/types.js';
import { PUT } from '../src/wasm.js';
import { Connections, FakeServer } from './fake_server.js';
import { bytesOf, FakeEngine, QUICK } from './fakes.js';

/** GPU buffers in memory, which insist on what `writeBuffer` insists on. */
class FakeHost {
  buffers = new Map<number, Uint8Array>();
  async stream(id: number, offset: number, bytes: Uint8Array) {
    assert.equal(offset % 4, 0);
    assert.equal(bytes.byteLength % 4, 0);
    assert.ok(bytes.byteLength > 0);
    await Promise.resolve();
    this.buffers.get(id)!.set(bytes, offset);
  }
  async workDone() {}
}

const rows = (...table: number[][]) => Float64Array.from(table.flat());

for (const chunkBytes of [1, 2, 3, 5, 7, 64, 211, 100_000]) {
  test(`rows of blocks of 18, 34 and 210 bytes arrive whole in chunks of ${chunkBytes}`, async () => {
    const file = bytesOf(3000);
    const host = new FakeHost();
    for (const id of [7, 8]) host.buffers.set(id, new Uint8Array(2048).fill(0xee));
    const table = rows([101, 18 * 3, 7, 64], [200, 34, 8, 0], [234, 210 * 5, 7, 192], [1301, 40, PUT, 0], [1341, 0, 7, 0], [1342, 9, PUT, 0], [1400, 3, 8, 64]);
    const engine = new FakeEngine();
    const placer = new Placer(0, table, { engine, host });
    for (let at = 0; at < file.byteLength; at += chunkBytes) await placer.take(at, file.subarray(at, at + chunkBytes));
    placer.finish(new ShardReader(new BlobSource(new Blob([file]))));
    const at7 = host.buffers.get(7)!;
    const at8 = host.buffers.get(8)!;
    assert.deepEqual(at7.slice(64, 64 + 54), file.slice(101, 101 + 54));
    assert.deepEqual([...at7.slice(118, 120)], [0, 0], 'padding is zeros');
    assert.deepEqual(at7.slice(192, 192 + 1050), file.slice(234, 234 + 1050));
    assert.deepEqual(at8.slice(0, 34), file.slice(200, 234));
    assert.deepEqual([...at8.slice(64, 69)], [...file.slice(1400, 1403), 0, 0xee]);
    assert.deepEqual(engine.puts.flatMap(({ bytes }) => [...bytes]), [...file.slice(1301, 1341), ...file.slice(1342, 1351)]);
    assert.ok(engine.puts.every(({ at, bytes }) => bytes.every((byte, i) => byte === file[at + i])));
  });
}

function shardsOf(files: Uint8Array<ArrayBuffer>[], abort: AbortController, servers: FakeServer[] = []) {
  return files.map((file, i) => {
    servers[i] ??= new FakeServer(file);
    return new ShardReader(new UrlSource(`https://m.test/${i}`, undefined, servers[i]!.fetch), abort.signal, { patience: QUICK });
  });
}

test('no tensor byte is placed before every header is in and the plan exists; seven shards do not block', async () => {
  const abort = new AbortController();
  const files = Array.from({ length: 7 }, (_, i) => bytesOf(20_000 + i, i));
  const servers: FakeServer[] = [];
  const engine = new FakeEngine(files.map(() => 1500), files.map((file, i) => rows([1600, file.byteLength - 1600, i, 0])));
  const host = new FakeHost();
  files.forEach((_, i) => host.buffers.set(i, new Uint8Array(20_100)));
  const wrote: string[] = engine.log;
  const stream = host.stream.bind(host);
  host.stream = async (...args) => {
    if (wrote.at(-1) !== 'write') wrote.push('write');
    await stream(...args);
  };
  const seen: LoadProgress[] = [];
  const shards = shardsOf(files, abort, servers);
  await load(shards, { engine, host, abort, onProgress: (p) => seen.push(p) });
  assert.deepEqual(wrote.filter((line) => !line.startsWith('header')), ['open', 'write', 'finish']);
  files.forEach((file, i) => assert.deepEqual(host.buffers.get(i)!.slice(0, file.byteLength - 1600), file.slice(1600)));
  assert.deepEqual(servers.map(({ requests }) => requests.length), [1, 1, 1, 1, 2, 2, 2]);
  const total = files.reduce((sum, file) => sum + file.byteLength, 0);
  assert.deepEqual(seen.at(-1), { phase: 'ready', loadedBytes: total, totalBytes: total, from: 'network' });
  const loaded = seen.map(({ loadedBytes }) => loadedBytes);
  assert.deepEqual(loaded, [...loaded].sort((a, b) => a - b));
});

for (const step of ['open', 'finishLoad', 'restore'] as const) {
  test(`a signal does not wait for the engine's ${step}: the self-test may be under way`, async () => {
    const abort = new AbortController();
    const engine = new FakeEngine([1500], [rows([1600, 64, PUT, 0])]);
    engine[step] = async () => {
      setTimeout(() => abort.abort());
      await new Promise(() => {});
    };
    const loading = load(shardsOf([bytesOf(2000)], abort), { engine, host: null, abort, tokens: Uint32Array.of(1) });
    await assert.rejects(loading, { code: 'cancelled' });
  });
}

const SERVERS: { [name: string]: Partial<FakeServer> } = {
  'Last-Modified and no ETag': { etag: null, lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT' },
  'neither': { etag: null },
  'a weak ETag': { etag: 'W/"v1"' },
  'headers hidden from another origin': { exposed: [] },
  'an ETag and a hidden Content-Range': { exposed: ['etag'] },
  'compression that is hidden': { exposed: [], gzip: true, etag: null },
};
for (const [name, set] of Object.entries(SERVERS)) {
  test(`eight shards load from a server with ${name}`, async () => {
    const abort = new AbortController();
    const files = Array.from({ length: 8 }, (_, i) => bytesOf(20_000 + i, i));
    const servers = files.map((file) => Object.assign(new FakeServer(file), set));
    const engine = new FakeEngine(files.map(() => 1500), files.map((file) => rows([1600, file.byteLength - 1600, PUT, 0])));
    await load(shardsOf(files, abort, servers), { engine, host: null, abort });
    files.forEach((file, i) => {
      const parts = engine.puts.filter(({ shard }) => shard === i).flatMap(({ bytes }) => [...bytes]);
      assert.deepEqual(parts, [...file.slice(1600)], `shard ${i}`);
    });
  });
}

test('the engine is told a length only where it is sure', async () => {
  for (const [set, told] of [[{}, 5000], [{ length: false }, -1], [{ gzip: true }, -1], [{ exposed: [] }, -1]] as [Partial<FakeServer>, number][]) {
    const engine = new FakeEngine([100], [rows([1000, 4000, PUT, 0])]);
    const lengths: number[] = [];
    const pushHeader = engine.pushHeader.bind(engine);
    engine.pushHeader = (shard, name, bytes, chunk) => {
      lengths.push(bytes);
      return pushHeader(shard, name, bytes, chunk);
    };
    const abort = new AbortController();
    const file = bytesOf(5000);
    await load(shardsOf([file], abort, [Object.assign(new FakeServer(file), set)]), { engine, host: null, abort });
    assert.deepEqual(lengths, [told], JSON.stringify(set));
  }
});

test('progress shows the length that a server claims for as long as it can be true', async () => {
  // Zeros are sent as far fewer bytes, and the claim counts those.
  for (const [file, most] of [[bytesOf(50_000).fill(0), undefined], [bytesOf(50_000), 50_000]] as const) {
    const gzip = most === undefined;
    const seen: LoadProgress[] = [];
    const abort = new AbortController();
    const engine = new FakeEngine([100], [rows([1000, 49_000, PUT, 0])]);
    const servers = [Object.assign(new FakeServer(file), { exposed: [], gzip })];
    await load(shardsOf([file], abort, servers), { engine, host: null, abort, onProgress: (p) => seen.push(p) });
    assert.equal(seen.at(-1)!.totalBytes, most);
    assert.ok(seen.every(({ loadedBytes, totalBytes = Infinity }) => loadedBytes <= totalBytes));
  }
});

for (const [loads, count] of [[2, 5], [2, 4], [3, 3], [1, 12]] as const) {
  test(`${loads} loads at once of ${count} shards each do not wait for each other's six connections`, async () => {
    const connections = new Connections(6);
    await Promise.all(Array.from({ length: loads }, async () => {
      const abort = new AbortController();
      const files = Array.from({ length: count }, (_, i) => bytesOf(20_000 + i, i));
      const servers = files.map((file, i) => {
        const server = Object.assign(new FakeServer(file), { connections });
        const { fetch } = server;
        // The loads ask in turns, so that each gets some of the connections.
        server.fetch = async (...args) => {
          await new Promise((resolve) => setTimeout(resolve, 10 * i));
          return fetch(...args);
        };
        return server;
      });
      const engine = new FakeEngine(files.map(() => 1500), files.map((file) => rows([1600, file.byteLength - 1600, PUT, 0])));
      await load(shardsOf(files, abort, servers), { engine, host: null, abort });
      files.forEach((file, i) => {
        const parts = engine.puts.filter(({ shard }) => shard === i).flatMap(({ bytes }) => [...bytes]);
        assert.deepEqual(parts, [...file.slice(1600)], `shard ${i}`);
      });
    }));
  });
}

test('a stream that is held while headers keep coming is not given back', async () => {
  const abort = new AbortController();
  const files = [bytesOf(20_000), bytesOf(20_000, 1)];
  const engine = new FakeEngine([1500, 15_000], files.map(() => rows([15_600, 4400, PUT, 0])));
  const servers = files.map((file) => new FakeServer(file));
  const { fetch } = servers[1]!;
  // The second header takes 15 chunks of 100 ms: longer than a stream is held for nothing.
  servers[1]!.fetch = async (...args) => {
    const response = await fetch(...args);
    const slowly = new TransformStream<Uint8Array, Uint8Array>({
      async transform(chunk, out) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        out.enqueue(chunk);
      },
    });
    return new Response(response.body!.pipeThrough(slowly), { headers: response.headers });
  };
  await load(shardsOf(files, abort, servers), { engine, host: null, abort });
  assert.deepEqual(servers[0]!.requests, ['GET']);
});

test('the first fault is the one thrown, and stops the other shards', async () => {
  const abort = new AbortController();
  const files = [bytesOf(500_000), bytesOf(5000)];
  const servers: FakeServer[] = [];
  const shards = shardsOf(files, abort, servers);
  Object.assign(servers[1]!, { stopAfter: 3000, stopsQuietly: true, length: false }); // no other try would help
  const engine = new FakeEngine([100, 100], [rows([1000, 499_000, PUT, 0]), rows([1000, 4000, PUT, 0])]);
  await assert.rejects(load(shards, { engine, host: null, abort }), {
    message: 'the file ends at byte 3000, its tensors need 5000 or more (https://m.test/1); the file is incomplete: get it again',
  });
  assert.ok(shards[0]!.position < 100_000, 'the long shard was not read to its end');
});

test('a file that ends inside its header, or before its last tensor, is named', async () => {
  for (const [header, message] of [
    [2000, 'the file ends inside its header, after 1500 bytes (blob); the file is incomplete: get it again'],
    [100, 'the file ends at byte 1500, its tensors need 2000 or more (blob); the file is incomplete: get it again'],
  ] as const) {
    const abort = new AbortController();
    const shard = new ShardReader(new BlobSource(new Blob([bytesOf(1500)])), abort.signal);
    const engine = new FakeEngine([header], [rows([1000, 1000, PUT, 0])]);
    await assert.rejects(load([shard], { engine, host: null, abort }), { code: 'bad_file', message });
  }
});

test('aborting ends the load with cancelled and finishes nothing', async () => {
  const abort = new AbortController();
  const shards = shardsOf([bytesOf(500_000)], abort);
  const engine = new FakeEngine([100], [rows([1000, 499_000, PUT, 0])]);
  const onProgress = ({ loadedBytes }: LoadProgress) => {
    if (loadedBytes > 50_000) abort.abort();
  };
  await assert.rejects(load(shards, { engine, host: null, abort, onProgress }), { code: 'cancelled' });
  assert.ok(!engine.log.includes('finish'));
});

test('what a reload gives to read is read before the load is ready', async () => {
  const abort = new AbortController();
  const file = bytesOf(500);
  const engine = new FakeEngine([100], [rows([200, 100, PUT, 0])]);
  const onProgress = ({ phase }: LoadProgress) => phase === 'ready' && engine.log.push(phase);
  const tokens = Uint32Array.of(5, 7);
  await load(shardsOf([file], abort), { engine, host: null, abort, onProgress, tokens });
  assert.deepEqual(engine.log.slice(-3), ['finish', 'restore 5,7', 'ready']);
});
