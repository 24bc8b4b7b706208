import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RlxError } from '../src/error.js';
import { ShardReader } from '../src/shard.js';
import { BlobSource, UrlSource } from '../src/source.js';
import { FakeServer } from './fake_server.js';
import { bytesOf, QUICK } from './fakes.js';

const url = 'https://models.test/a.gguf';
const reader = (server: FakeServer, signal?: AbortSignal) =>
  new ShardReader(new UrlSource(url, undefined, server.fetch), signal, { patience: QUICK });

async function rest(shard: ShardReader): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let chunk = await shard.read(); chunk; chunk = await shard.read()) parts.push(chunk.slice() as Uint8Array<ArrayBuffer>);
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

test('an address is read from its first byte to its last', async () => {
  const server = new FakeServer(bytesOf(10_500));
  const shard = reader(server);
  assert.deepEqual(await rest(shard), server.body);
  assert.equal(shard.bytes, 10_500);
  assert.equal(shard.position, 10_500);
});

test('a Blob is read through the same few bytes of memory', async () => {
  const bytes = bytesOf(1_000_000);
  assert.deepEqual(await rest(new ShardReader(new BlobSource(new Blob([bytes])))), bytes);
});

for (const ranges of [true, false]) {
  test(`a paused shard goes on where it was, ${ranges ? 'with' : 'without'} ranges on the server`, async () => {
    const server = new FakeServer(bytesOf(10_500));
    server.ranges = ranges;
    const shard = reader(server);
    const first = (await shard.read())!.slice();
    await shard.pause();
    const tail = await rest(shard);
    assert.deepEqual(new Uint8Array([...first, ...tail]), server.body);
    assert.deepEqual(server.requests, ['GET', 'GET bytes=1000-']);
  });
}

test('a file that changed while it was paused is an error', async () => {
  const server = new FakeServer(bytesOf(5000));
  const shard = reader(server);
  await shard.read();
  await shard.pause();
  server.etag = '"v2"';
  await assert.rejects(shard.read(), { code: 'io', what: 'the file changed on the server while it was loading', at: url });
});

test('404 names the address and says what to do', async () => {
  const source = new UrlSource(url, undefined, async () => new Response('', { status: 404, statusText: 'Not Found' }));
  await assert.rejects(new ShardReader(source).read(), {
    code: 'io',
    message: `the server answered 404 Not Found (${url}); check the address`,
  });
});

test('a server that stops half way is an error with the byte it stopped at', async () => {
  const server = new FakeServer(bytesOf(10_000));
  server.stopAfter = 4000;
  await assert.rejects(rest(reader(server)), {
    code: 'io',
    message: `the stream stopped after 4000 of 10000 bytes, in 3 tries (${url}); load again`,
  });
});

test('a stream that ends early without a fault is the same error', async () => {
  const source = new UrlSource(url, undefined, async () => new Response(bytesOf(10), { headers: { 'content-length': '20' } }));
  await assert.rejects(rest(new ShardReader(source, undefined, { patience: QUICK })), { message: `the stream stopped after 10 of 20 bytes, in 3 tries (${url}); load again` });
});

test('a server that cannot be reached is io, with the cause kept', async () => {
  const server = new FakeServer(bytesOf(1));
  server.online = false;
  await assert.rejects(reader(server).read(), (error: unknown) =>
    error instanceof RlxError && error.code === 'io' && error.cause instanceof TypeError);
});

test('a signal ends reading with cancelled, whatever the stream does', async () => {
  const abort = new AbortController();
  const shard = reader(new FakeServer(bytesOf(5000)), abort.signal);
  await shard.read();
  abort.abort();
  await assert.rejects(shard.read(), { code: 'cancelled', name: 'AbortError' });
});
