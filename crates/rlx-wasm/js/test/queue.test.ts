import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RlxError } from '../src/error.js';
import { Queue } from '../src/queue.js';

const code = (expected: string) => (error: unknown) => error instanceof RlxError && error.code === expected;

test('turns come in the order they were asked for', async () => {
  const queue = new Queue();
  const order: number[] = [];
  const releases = [await queue.turn()];
  const later = [1, 2, 3].map(async (n) => {
    const release = await queue.turn();
    order.push(n);
    release();
  });
  assert.equal(queue.length, 3);
  releases[0]!();
  await Promise.all(later);
  assert.deepEqual(order, [1, 2, 3]);
});

test('a signal takes a waiting turn out of the queue and leaves the others', async () => {
  const queue = new Queue();
  const release = await queue.turn();
  const abort = new AbortController();
  const gone = queue.turn(abort.signal);
  const stays = queue.turn();
  abort.abort();
  await assert.rejects(gone, code('cancelled'));
  assert.equal(queue.length, 1);
  release();
  (await stays)();
});

test('a signal that fired before asking never enters', async () => {
  await assert.rejects(new Queue().turn(AbortSignal.abort()), code('cancelled'));
});

test('releasing twice does not let two run at once', async () => {
  const queue = new Queue();
  const release = await queue.turn();
  const second = queue.turn();
  let thirdRuns = false;
  void queue.turn().then(() => {
    thirdRuns = true;
  });
  release();
  release();
  await second;
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(thirdRuns, false);
});

test('closing rejects what waits and what comes later', async () => {
  const queue = new Queue();
  await queue.turn();
  const waiting = queue.turn();
  queue.close(new RlxError('disposed', 'the engine was disposed'));
  await assert.rejects(waiting, code('disposed'));
  await assert.rejects(queue.turn(), code('disposed'));
});
