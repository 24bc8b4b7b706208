import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RlxError, toRlxError, withText } from '../src/error.js';

test('the message is what, place and hint in one line, as Rust prints it', () => {
  const error = new RlxError('io', 'the server answered 404 Not Found', { at: 'https://a/b', hint: 'check it' });
  assert.equal(error.message, 'the server answered 404 Not Found (https://a/b); check it');
});

test("Rust's JSON becomes an error with the same fields", () => {
  const error = toRlxError('{"code":"bad_file","what":"no magic","at":"m.gguf, byte 0","hint":""}');
  assert.deepEqual([error.code, error.what, error.at, error.hint], ['bad_file', 'no magic', 'm.gguf, byte 0', '']);
  assert.equal(error.message, 'no magic (m.gguf, byte 0)');
  assert.equal(error.details, undefined);
  const details = { needed: 5, available: null, contextLength: 2 };
  const full = toRlxError(JSON.stringify({ code: 'out_of_memory', what: 'no room', details }));
  assert.deepEqual(full.details, details);
  assert.deepEqual(withText(full, 'so far').details, details);
});

test('an abort is cancelled, a wasm trap and anything else are internal', () => {
  assert.equal(toRlxError(new DOMException('x', 'AbortError')).code, 'cancelled');
  assert.equal(toRlxError(new DOMException('x', 'AbortError')).name, 'AbortError');
  assert.equal(toRlxError(new WebAssembly.RuntimeError('unreachable')).code, 'internal');
  for (const json of ['{"not": "ours"}', '{"code":"io"}', '{"what":"no code"}']) {
    const { code, what } = toRlxError(json);
    assert.deepEqual([code, what], ['internal', json]);
  }
  assert.equal(toRlxError(undefined).code, 'internal');
});

test('a trap says that the module stopped, anything else what it says itself', () => {
  assert.match(toRlxError(new WebAssembly.RuntimeError('unreachable')).what, /^the wasm module stopped: unreachable$/);
  const other = toRlxError(new Error('no such thing'));
  assert.deepEqual([other.code, other.what, (other.cause as Error).message], ['internal', 'no such thing', 'no such thing']);
  assert.equal(toRlxError('{"code": 7').what, '{"code": 7');
});

test("an RlxError stays what it is; with the text so far it is otherwise the same", () => {
  const error = new RlxError('io', 'the stream stopped', { at: 'a.gguf', hint: 'load again', cause: new TypeError('cut') });
  assert.equal(toRlxError(error), error);
  const more = withText(error, 'so far');
  assert.deepEqual([more.code, more.what, more.at, more.hint, more.cause, more.text], ['io', 'the stream stopped', 'a.gguf', 'load again', error.cause, 'so far']);
});
