import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ShardReader } from '../src/shard.js';
import { StreamSource } from '../src/stream_source.js';
import { bytesOf, streamOf } from './fakes.js';

async function rest(shard: ShardReader): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let chunk = await shard.read(); chunk; chunk = await shard.read()) parts.push(chunk.slice() as Uint8Array<ArrayBuffer>);
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

test('a stream is read once, with pauses', async () => {
  const bytes = bytesOf(10_500);
  const stream = streamOf(bytes, 1000);
  const shard = new ShardReader(new StreamSource(stream));
  const first = (await shard.read())!.slice();
  await shard.pause();
  assert.deepEqual(new Uint8Array([...first, ...await rest(shard)]), bytes);
  await shard.close();
  await assert.rejects(new ShardReader(new StreamSource(stream)).read(), { code: 'usage', what: 'a stream can be read once' });
});

test('a pause while a chunk is awaited loses nothing', async () => {
  let send: (bytes: Uint8Array) => void = () => {};
  const source = new StreamSource(new ReadableStream({ start: (out) => { send = (bytes) => out.enqueue(bytes); } }));
  const { stream } = await source.open();
  const reader = stream.getReader();
  const waiting = reader.read();
  await reader.cancel();
  await waiting;
  send(bytesOf(5));
  const again = await source.open(undefined, { offset: 0, of: {} });
  assert.deepEqual((await again.stream.getReader().read()).value, bytesOf(5));
});

test('what is no stream of bytes, and a signal, end it', async () => {
  const words = new StreamSource(new ReadableStream({ start: (out) => out.enqueue('text' as never) }));
  await assert.rejects(new ShardReader(words).read(), (error: Error) => (error.cause as { what?: string }).what === 'the stream is not of bytes');
  let ended: unknown;
  const abort = new AbortController();
  const endless = new StreamSource(new ReadableStream({ cancel: (why) => { ended = why; } }));
  await endless.open(abort.signal);
  abort.abort('enough');
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(ended, 'enough');
});
