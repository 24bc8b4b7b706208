import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { borrow, CHECKS, keep, kept, lend, SPEEDS, TIMES, TUNINGS } from '../src/kept.js';

const page = globalThis as { localStorage?: unknown };
afterEach(() => {
  delete page.localStorage;
});

function store(text: string | null): void {
  Object.defineProperty(page, 'localStorage', { configurable: true, value: { getItem: () => text } });
}

test('what is kept is read back, and what is no object of tunings is nothing', () => {
  store('{"an adapter; ; rlx 0.1.0":"short=256x1"}');
  assert.deepEqual(kept(TUNINGS), { 'an adapter; ; rlx 0.1.0': 'short=256x1' });
  for (const text of [null, '', 'no JSON', 'null', '7', '"short=256x1"']) {
    store(text);
    assert.deepEqual(kept(TUNINGS), {}, String(text));
  }
});

test('where there is no storage nothing is kept', () => {
  assert.deepEqual(kept(TUNINGS), {});
  Object.defineProperty(page, 'localStorage', {
    configurable: true,
    get() {
      throw new Error('storage is denied to this origin');
    },
  });
  assert.deepEqual(kept(TUNINGS), {});
});

test('of many texts the latest are kept, and one kept again is among them', () => {
  const items = new Map<string, string>();
  const value = { getItem: (name: string) => items.get(name) ?? null, setItem: (name: string, text: string) => items.set(name, text) };
  Object.defineProperty(page, 'localStorage', { configurable: true, value });
  for (let i = 0; i < 64; i++) assert.ok(keep('a', `key ${i}`, `text ${i}`));
  assert.ok(keep('a', 'key 0', 'again') && keep('a', 'key 64', 'text 64') && keep('b', 'key', 'text'));
  const texts = kept('a');
  assert.equal(Object.keys(texts).length, 64);
  assert.deepEqual([texts['key 0'], texts['key 1'], texts['key 2'], texts['key 64']], ['again', undefined, 'text 2', 'text 64']);
  assert.deepEqual(kept('b'), { key: 'text' });
});

test('a worker is lent all that is kept about devices, and what it finds is told', () => {
  store('{"a key":"a text"}');
  const lent = lend();
  assert.deepEqual(lent, Object.fromEntries([TUNINGS, CHECKS, SPEEDS, TIMES].map((name) => [name, { 'a key': 'a text' }])));
  const told: string[][] = [];
  borrow(lent, (...found) => told.push(found));
  assert.ok(keep(SPEEDS, 'other', '1 2'));
  assert.deepEqual([kept(SPEEDS), kept(CHECKS), told], [{ 'a key': 'a text', other: '1 2' }, { 'a key': 'a text' }, [[SPEEDS, 'other', '1 2']]]);
});
