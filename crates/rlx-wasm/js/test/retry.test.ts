/** A server that fails for a while, or for good. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RlxError } from '../src/error.js';
import { inTime, PassingError, retryAfter, Tries } from '../src/retry.js';
import { ShardReader } from '../src/shard.js';
import { UrlSource } from '../src/source.js';
import { Connections, FakeServer } from './fake_server.js';
import { bytesOf, QUICK } from './fakes.js';

const url = 'https://models.test/a.gguf';

async function all(shard: ShardReader): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let chunk = await shard.read(); chunk; chunk = await shard.read()) parts.push(chunk.slice() as Uint8Array<ArrayBuffer>);
  await shard.close();
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

const reader = (server: FakeServer, patience = QUICK, signal?: AbortSignal) =>
  new ShardReader(new UrlSource(url, undefined, server.fetch), signal, { patience });

/** Before each request a step of the script changes the server; after the last it stays. */
function scripted(server: FakeServer, ...script: Partial<FakeServer>[]): FakeServer {
  const { fetch } = server;
  server.fetch = (...args) => {
    Object.assign(server, script.shift());
    return fetch(...args);
  };
  return server;
}

for (const status of [408, 429, 500, 502, 503, 504]) {
  test(`${status}, then the file`, async () => {
    const server = scripted(new FakeServer(bytesOf(5000)), { status }, { status: 200 });
    assert.deepEqual(await all(reader(server)), server.body);
    assert.equal(server.requests.length, 2);
  });
}

test('403, 404 and a page are asked for once', async () => {
  for (const status of [400, 401, 403, 404, 410, 501]) {
    const server = Object.assign(new FakeServer(bytesOf(50)), { status });
    await assert.rejects(all(reader(server)), { code: 'io' });
    assert.equal(server.requests.length, 1, String(status));
  }
});

for (const [name, set, asked] of [
  ['a strong ETag: the rest alone', {}, ['GET', 'GET bytes=4000-', 'GET bytes=7000-']],
  ['a date: from the start, compared', { etag: null, lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT' }, ['GET', 'GET', 'GET']],
  ['no validator: from the start, compared', { etag: null }, ['GET', 'GET', 'GET']],
  ['no ranges: from the start', { ranges: false }, ['GET', 'GET bytes=4000-', 'GET bytes=7000-']],
] as [string, Partial<FakeServer>, string[]][]) {
  test(`a stream that is cut goes on: ${name}`, async () => {
    const server = scripted(Object.assign(new FakeServer(bytesOf(10_500)), set), { stopAfter: 4000 }, { stopAfter: 7000 }, { stopAfter: undefined as never });
    assert.deepEqual(await all(reader(server)), server.body);
    assert.deepEqual(server.requests, asked);
  });
}

test('a file that changed behind the same date is told, also after it was cut', async () => {
  const server = scripted(Object.assign(new FakeServer(bytesOf(10_500)), { etag: null, lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT' }),
    { stopAfter: 4000 }, { stopAfter: undefined as never, body: bytesOf(10_500, 1) });
  await assert.rejects(all(reader(server)), { code: 'io', what: 'the file changed on the server while it was loading' });
});

test('a server that breaks off again and again is an error that says how often', async () => {
  const server = Object.assign(new FakeServer(bytesOf(10_500)), { stopAfter: 4000 });
  await assert.rejects(all(reader(server, { ...QUICK, tries: 4 })), { code: 'io', what: 'the stream stopped after 4000 of 10500 bytes, in 4 tries' });
  assert.equal(server.requests.length, 4);
});

test('progress gives new tries, a MiB at least', async () => {
  const error = new PassingError('cut', { at: url, hint: '' });
  const tries = new Tries({ ...QUICK, tries: 2 });
  for (let n = 0; n < 20; n += 1) await tries.again(error, n * 2 ** 20);
  await assert.rejects(tries.again(error, 19 * 2 ** 20 + 1000), { what: 'cut, in 2 tries' });
});

test('a server that falls silent is given up and asked again', async () => {
  const server = new FakeServer(bytesOf(5000));
  const { fetch } = server;
  let silent = true;
  server.fetch = async (...args) => {
    const response = await fetch(...args);
    if (!silent) return response;
    silent = false;
    const from = response.body!.getReader();
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      async pull(out) {
        if (sent >= 2000) return new Promise(() => {});
        const { value } = await from.read();
        sent += value!.byteLength;
        out.enqueue(value!);
      },
    });
    return new Response(body, { headers: response.headers });
  };
  assert.deepEqual(await all(reader(server, { ...QUICK, stallMs: 40 })), server.body);
  assert.deepEqual(server.requests, ['GET', 'GET bytes=2000-']);
});

test('a server that never answers is told, and how long was waited', async () => {
  const server = Object.assign(new FakeServer(bytesOf(50)), { connections: new Connections(0) });
  await assert.rejects(all(reader(server, { ...QUICK, stallMs: 20 })), { code: 'io', what: 'the server did not answer for 0.02 s, in 2 tries' });
});

test('a request that waits while bytes of other loads arrive is not late', async () => {
  let go = (_: unknown) => {};
  const work = new Promise((resolve) => (go = resolve));
  const answer = inTime(work, 60, () => new RlxError('io', 'late'), true);
  const other = reader(new FakeServer(bytesOf(20_000)));
  for (let chunk = await other.read(); chunk; chunk = await other.read()) await new Promise((resolve) => setTimeout(resolve, 10));
  go(7);
  assert.equal(await answer, 7);
});

test('Retry-After is obeyed, in seconds or as a date; one that is too long ends the load', async () => {
  const now = Date.parse('Tue, 03 Nov 2026 10:00:00 GMT');
  for (const [text, ms] of [['2', 2000], ['Tue, 03 Nov 2026 10:00:05 GMT', 5000], ['Tue, 03 Nov 2026 09:00:00 GMT', 0], ['soon', 0], ['-5', 0], ['', 0]] as const) {
    assert.equal(retryAfter(new Headers(text ? { 'retry-after': text } : {}), now), ms, text);
  }
  const fetcher = (async () => new Response('', { status: 429, statusText: 'Too Many Requests', headers: { 'retry-after': '3600' } })) as typeof fetch;
  const shard = new ShardReader(new UrlSource(url, undefined, fetcher), undefined, { patience: QUICK });
  await assert.rejects(shard.read(), { code: 'io', what: 'the server answered 429 Too Many Requests, and asks to wait 3600 s' });
});

test('a signal ends a wait at once', { timeout: 5000 }, async () => {
  const abort = new AbortController();
  const server = Object.assign(new FakeServer(bytesOf(50)), { status: 503 });
  const read = reader(server, { ...QUICK, pauseMs: 60_000 }, abort.signal).read();
  setTimeout(() => abort.abort(), 10);
  await assert.rejects(read, { code: 'cancelled' });
  const silent = Object.assign(new FakeServer(bytesOf(50)), { connections: new Connections(0) });
  silent.fetch = (async () => new Promise(() => {})) as typeof fetch; // it does not even hear the signal
  const second = new AbortController();
  const unheard = reader(silent, { ...QUICK, stallMs: 60_000 }, second.signal).read();
  setTimeout(() => second.abort(), 10);
  await assert.rejects(unheard, { code: 'cancelled' });
});

test('a page in place of a file is told, and its connection given back', async () => {
  let cancelled = false;
  const body = new ReadableStream({ cancel: () => { cancelled = true; } });
  const fetcher = (async () => new Response(body, { headers: { 'content-type': 'text/html; charset=utf-8' } })) as typeof fetch;
  const shard = new ShardReader(new UrlSource(url, undefined, fetcher), undefined, { patience: QUICK });
  await assert.rejects(shard.read(), { code: 'io', what: 'the address gives a page (HTML) and not a file', at: url });
  assert.ok(cancelled);
});
