/** `tokenize`, `detokenize` and `countTokens`: what reaches the module, and what is refused before. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Running } from '../src/bring.js';
import { Engine } from '../src/engine.js';
import type { ChatMessage } from '../src/openai/types.js';
import type { LoadOptions } from '../src/types.js';
import { FakeEngine } from './fakes.js';

function setUp() {
  // Only `load` may make one, which needs the wasm module.
  const Made = Engine as unknown as new (running: Running, options: LoadOptions) => Engine;
  return new Made({ wasm: new FakeEngine(), host: null }, { model: 'a.gguf' });
}

test('text becomes ids and ids text, plain unless special tokens are asked for', () => {
  const engine = setUp();
  assert.deepEqual([...engine.tokenize('hi')], [104, 105]);
  assert.deepEqual([...engine.tokenize('hi', { special: true })], [1, 104, 105]);
  assert.equal(engine.detokenize(engine.tokenize('hi')), 'hi');
  assert.equal(engine.detokenize([104, 105]), 'hi');
});

test('tokens of a text and of messages are counted', () => {
  const engine = setUp();
  const messages: ChatMessage[] = [{ role: 'user', content: 'hi' }];
  assert.equal(engine.countTokens('hello'), 5);
  assert.equal(engine.countTokens(messages), 1 + JSON.stringify({ messages }).length);
});

test('what is no text, no id and no message is refused', () => {
  const engine = setUp();
  assert.throws(() => engine.tokenize(5 as unknown as string), { code: 'usage', at: 'text' });
  for (const id of [-1, 1.5, 2 ** 32, NaN]) {
    assert.throws(() => engine.detokenize([id]), { code: 'usage', at: 'ids' });
  }
  assert.throws(() => engine.countTokens([]), { code: 'usage', at: 'messages' });
  assert.throws(() => engine.countTokens([{ role: 'user', content: 5 as unknown as string }]), { code: 'usage', at: 'messages[0]' });
});

test('an engine that was disposed has no tokenizer', () => {
  const engine = setUp();
  engine.dispose();
  assert.throws(() => engine.tokenize('a'), { code: 'disposed' });
  assert.throws(() => engine.countTokens('a'), { code: 'disposed' });
});
