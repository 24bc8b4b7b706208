/**
 * A shard whose connection was given back is read on from where it was, whatever the server says of
 * versions, lengths and ranges; and bytes of two versions of a file are never taken for one file.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ShardReader } from '../src/shard.js';
import { UrlSource } from '../src/source.js';
import { FakeServer } from './fake_server.js';
import { bytesOf, QUICK } from './fakes.js';

const url = 'https://models.test/a.gguf';
const TUESDAY = 'Tue, 03 Nov 2026 10:00:00 GMT';
const LATER = 'Tue, 03 Nov 2026 10:00:01 GMT';
const CHANGED = { code: 'io', what: 'the file changed on the server while it was loading', at: url, hint: 'load again' };

const dated = (server: FakeServer) => Object.assign(server, { etag: null, lastModified: TUESDAY });
const unnamed = (server: FakeServer) => Object.assign(server, { etag: null });
const weak = (server: FakeServer) => Object.assign(server, { etag: 'W/"v1"' });
const named = (server: FakeServer) => Object.assign(server, { etag: '"v1"' });

const VERSIONS = { 'a strong ETag': named, 'a weak ETag': weak, 'Last-Modified alone': dated, 'no validator': unnamed };
const WAYS: { [name: string]: Partial<FakeServer> } = {
  'ranges': {},
  'ranges that are shorter than asked for': { rangeBytes: 1500 },
  'ranges from another byte than asked for': { rangeStep: 4096 },
  'no ranges': { ranges: false },
  'no length': { length: false },
  'compression': { gzip: true },
  'compression and no length': { gzip: true, length: false },
  'another origin that shows nothing': { exposed: [] },
  'another origin that shows its ETag': { exposed: ['etag'] },
  'another origin that shows ETag and Content-Range': { exposed: ['etag', 'content-range'] },
  'another origin, compression': { exposed: [], gzip: true },
  'another origin that shows its ETag, compression': { exposed: ['etag'], gzip: true },
  'another origin, no ranges': { exposed: [], ranges: false },
};

function* servers(body: Uint8Array<ArrayBuffer>): Generator<[name: string, server: FakeServer]> {
  for (const [version, setVersion] of Object.entries(VERSIONS)) {
    for (const [way, set] of Object.entries(WAYS)) {
      yield [`${version}, ${way}`, Object.assign(setVersion(new FakeServer(body)), set)];
    }
  }
}

/** What a reader of the server's file has read that was paused after `chunks` chunks, when `meanwhile` happened. */
async function paused(server: FakeServer, chunks: number, meanwhile: () => void = () => {}): Promise<Uint8Array> {
  const shard = new ShardReader(new UrlSource(url, undefined, server.fetch), undefined, { patience: QUICK });
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let n = 0; n < chunks; n += 1) parts.push((await shard.read())!.slice() as Uint8Array<ArrayBuffer>);
  await shard.pause();
  server.chunkBytes = 700; // the network cuts the same bytes in other places
  meanwhile();
  for (let chunk = await shard.read(); chunk; chunk = await shard.read()) parts.push(chunk.slice() as Uint8Array<ArrayBuffer>);
  await shard.close();
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

const file = bytesOf(10_500);
for (const [name, server] of servers(file)) {
  test(`${name}: a paused shard goes on where it was`, async () => {
    for (const chunks of [1, 3, 10, 11]) {
      Object.assign(server, { requests: [], chunkBytes: 1000 });
      assert.deepEqual(await paused(server, chunks), file, `after ${chunks} chunks`);
      assert.ok(server.requests.length <= 3, server.requests.join());
    }
  });
}

/** The next version: other bytes everywhere, beyond the first 5000 or before them, or more of them. */
const NEXT: { [name: string]: Uint8Array<ArrayBuffer> } = {
  'other bytes': bytesOf(10_500, 1),
  'another end': Uint8Array.from(file, (byte, i) => (i < 5000 ? byte : byte ^ 255)),
  'another beginning': Uint8Array.from(file, (byte, i) => (i >= 1000 ? byte : byte ^ 255)),
  'one other byte': Uint8Array.from(file, (byte, i) => (i === 2999 ? byte ^ 1 : byte)),
  'more bytes': bytesOf(10_501),
  'fewer bytes': bytesOf(2500),
};
for (const [change, next] of Object.entries(NEXT)) {
  for (const renamed of [true, false]) {
    // A server that gives two versions one strong ETag breaks its word: nothing is to be noticed by.
    const keptName = ([name]: [string, FakeServer]) => renamed || !name.startsWith('a strong ETag');
    test(`${change} ${renamed ? 'under a new name' : 'under the same name, or none'}: never a mix`, async () => {
      for (const [name, server] of [...servers(file)].filter(keptName)) {
        const read = paused(server, 3, () => {
          server.body = next;
          if (!renamed) return;
          if (server.etag !== null) server.etag = server.etag.replace('v1', 'v2');
          if (server.lastModified !== null) server.lastModified = LATER;
        });
        const outcome = await read.catch((error: unknown) => error);
        if (outcome instanceof Error) {
          assert.equal(outcome.message, `${CHANGED.what} (${url}); load again`, name);
        } else {
          // All of the next version, the 3000 bytes that were read before too: they are the same in both.
          assert.deepEqual(outcome, next, `${name}: the bytes are of no version`);
        }
      }
    });
  }
}

test('a version or a length that is shown to be another is an error, even where the beginning is the same', async () => {
  const changes: [Partial<FakeServer>, Partial<FakeServer>][] = [
    [{}, { etag: '"v2"' }],
    [{}, { etag: null }],
    [{ ranges: false }, { etag: '"v2"' }],
    [{ etag: 'W/"v1"' }, { etag: 'W/"v2"' }],
    [{ etag: 'W/"v1"' }, { etag: '"v1"' }],
    [{ etag: null, lastModified: TUESDAY }, { lastModified: LATER }],
    [{ etag: null, lastModified: TUESDAY, exposed: [] }, { lastModified: LATER }],
    [{ etag: null }, { lastModified: TUESDAY }],
    [{ etag: null }, { body: bytesOf(10_501) }],
    [{ etag: null, exposed: [] }, { body: bytesOf(10_501) }],
  ];
  for (const [before, after] of changes) {
    const server = Object.assign(new FakeServer(file), before);
    await assert.rejects(paused(server, 3, () => Object.assign(server, after)), CHANGED, JSON.stringify([before, after]));
  }
});

test('with a strong ETag the rest alone is asked for; with less the beginning is read again and compared', async () => {
  const asked = async (set: Partial<FakeServer>) => {
    const server = Object.assign(new FakeServer(file), set);
    await paused(server, 3);
    return server.requests;
  };
  assert.deepEqual(await asked({}), ['GET', 'GET bytes=3000-']);
  assert.deepEqual(await asked({ exposed: ['etag', 'content-range'] }), ['GET', 'GET bytes=3000-']);
  assert.deepEqual(await asked({ etag: 'W/"v1"' }), ['GET', 'GET']);
  assert.deepEqual(await asked({ etag: null, lastModified: TUESDAY }), ['GET', 'GET']);
  assert.deepEqual(await asked({ etag: null }), ['GET', 'GET']);
});

test("the second answer is the server's and not the browser's cache's, which would put it behind the first one's beginning", async () => {
  for (const set of [{}, { etag: null, lastModified: TUESDAY }, { exposed: ['etag'] }] as Partial<FakeServer>[]) {
    const server = Object.assign(new FakeServer(file), set);
    const { fetch } = server;
    const modes: (string | undefined)[] = [];
    server.fetch = (to, init) => {
      modes.push(init?.cache);
      return fetch(to, init);
    };
    await paused(server, 3);
    assert.equal(modes.shift(), undefined);
    assert.ok(modes.length > 0 && modes.every((mode) => mode === 'no-store'), modes.join());
  }
});

test('a range that cannot be checked is not used: the whole is asked for', async () => {
  for (const set of [{ exposed: ['etag'] }, { rangeBytes: 1500 }, { rangeStep: 2048 }] as Partial<FakeServer>[]) {
    const server = Object.assign(new FakeServer(file), set);
    assert.deepEqual(await paused(server, 3), file);
    assert.deepEqual(server.requests, ['GET', 'GET bytes=3000-', 'GET']);
  }
});

test('a shard that had been read to its end before it was paused is asked for no more', async () => {
  const server = new FakeServer(bytesOf(800));
  assert.deepEqual(await paused(server, 1), server.body);
  assert.deepEqual(server.requests, ['GET']);
});

test('a server that fails when it is asked for the rest is told by its status', async () => {
  const server = new FakeServer(file);
  await assert.rejects(paused(server, 3, () => (server.status = 503)), { code: 'io', what: 'the server answered 503 Service Unavailable, in 3 tries', at: url });
});

test('a server that stops while the beginning is read again is told with the place', async () => {
  const server = unnamed(new FakeServer(file));
  await assert.rejects(paused(server, 3, () => (server.stopAfter = 2000)), {
    code: 'io', what: 'the stream stopped after 2000 of 10500 bytes, in 3 tries', at: url,
  });
});
