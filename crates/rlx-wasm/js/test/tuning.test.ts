import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { keptTunings } from '../src/tuning.js';

const page = globalThis as { localStorage?: unknown };
afterEach(() => {
  delete page.localStorage;
});

function store(text: string | null): void {
  Object.defineProperty(page, 'localStorage', { configurable: true, value: { getItem: () => text } });
}

test('what is kept is read back, and what is no object of tunings is nothing', () => {
  store('{"an adapter; ; rlx 0.1.0":"short=256x1"}');
  assert.deepEqual(keptTunings(), { 'an adapter; ; rlx 0.1.0': 'short=256x1' });
  for (const text of [null, '', 'no JSON', 'null', '7', '"short=256x1"']) {
    store(text);
    assert.deepEqual(keptTunings(), {}, String(text));
  }
});

test('where there is no storage nothing is kept', () => {
  assert.deepEqual(keptTunings(), {});
  Object.defineProperty(page, 'localStorage', {
    configurable: true,
    get() {
      throw new Error('storage is denied to this origin');
    },
  });
  assert.deepEqual(keptTunings(), {});
});
