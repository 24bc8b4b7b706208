/** `tokenize`, `detokenize` and `countTokens`: what reaches the module, and what is refused before. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatMessage } from '../src/openai/types.js';
import { FakeEngine } from './fakes.js';
import { PLACES } from './places.js';

for (const { name, engine: make } of PLACES) {
  test(`text becomes ids and ids text, plain unless special tokens are asked for, ${name}`, async () => {
    const engine = await make(new FakeEngine());
    assert.deepEqual([...await engine.tokenize('hi')], [104, 105]);
    assert.deepEqual([...await engine.tokenize('hi', { special: true })], [1, 104, 105]);
    assert.equal(await engine.detokenize(await engine.tokenize('hi')), 'hi');
    assert.equal(await engine.detokenize([104, 105]), 'hi');
    await engine.dispose();
  });

  test(`tokens of a text and of messages are counted, ${name}`, async () => {
    const engine = await make(new FakeEngine());
    const messages: ChatMessage[] = [{ role: 'user', content: 'hi' }];
    assert.equal(await engine.countTokens('hello'), 5);
    assert.equal(await engine.countTokens(messages), 1 + JSON.stringify({ messages }).length);
    await engine.dispose();
  });

  test(`what is no text, no id and no message is refused, ${name}`, async () => {
    const engine = await make(new FakeEngine());
    await assert.rejects(engine.tokenize(5 as unknown as string), { code: 'usage', at: 'text' });
    for (const id of [-1, 1.5, 2 ** 32, NaN]) {
      await assert.rejects(engine.detokenize([id]), { code: 'usage', at: 'ids' });
    }
    await assert.rejects(engine.countTokens([]), { code: 'usage', at: 'messages' });
    await assert.rejects(engine.countTokens([{ role: 'user', content: 5 as unknown as string }]), { code: 'usage', at: 'messages[0]' });
    await engine.dispose();
  });

  test(`an engine that was disposed has no tokenizer, ${name}`, async () => {
    const engine = await make(new FakeEngine());
    await engine.dispose();
    await assert.rejects(engine.tokenize('a'), { code: 'disposed' });
    await assert.rejects(engine.countTokens('a'), { code: 'disposed' });
  });
}
