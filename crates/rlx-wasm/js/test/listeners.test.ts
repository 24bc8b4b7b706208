import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { listening } from '../src/listeners.js';

const thrower = listening((words: string) => {
  throw new Error(words);
});

test('what a listener throws is reported as uncaught, and whoever called it goes on', () => {
  const reported: unknown[] = [];
  const scope = globalThis as { reportError?: (error: unknown) => void };
  scope.reportError = (error) => reported.push((error as Error).message);
  try {
    thrower('one');
    thrower('two');
  } finally {
    delete scope.reportError;
  }
  assert.deepEqual(reported, ['one', 'two']);
});

test('in Node it is an uncaught exception', async () => {
  const others = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  try {
    const uncaught = once(process, 'uncaughtException');
    thrower('three');
    assert.equal(((await uncaught)[0] as Error).message, 'three');
  } finally {
    for (const listener of others) process.on('uncaughtException', listener);
  }
});
