/** What `info` says of functions, against what a call with them comes to. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { abilities } from '../src/openai/abilities.js';
import { callGrammar } from '../src/openai/call_grammars.js';
import { chatRequest } from '../src/openai/chat_request.js';
import { formOf } from '../src/openai/forms.js';
import type { ChatTool } from '../src/openai/types.js';
import { Vocabulary } from '../src/openai/vocabulary.js';
import { FakeEngine } from './fakes.js';
import { PLACES } from './places.js';

const tools: ChatTool[] = [{ type: 'function', function: { name: 'now', parameters: { type: 'object' } } }];
const FORMS: [template: string, required: boolean, strict: boolean][] = [
  ['{{ tools }}<tool_call>', true, true],
  ['{{ tools }}<tool_call><function=', true, true],
  ['{{ tools }}[TOOL_CALLS]', true, true],
  ['{{ tools }}[TOOL_CALLS][ARGS]', true, true],
  ['{{ tools }}<|tool_list_start|>', true, true],
  ['{{ tools }}<|tool_call|>', true, true],
  ['{{ tools }}"parameters": dictionary of argument', true, false],
  ['{{ tools }}<|channel|><|message|>', true, false],
  ['{{ tools }}<start_function_call>', false, false],
  ['{{ tools }}<|tool_call>', false, false],
];

const refused = (work: () => unknown): boolean => {
  try {
    work();
    return false;
  } catch (error) {
    assert.equal((error as { code?: unknown }).code, 'usage');
    return true;
  }
};

test('a model takes tools where a call with them is not refused', () => {
  for (const template of [...FORMS.map(([it]) => it), '{{ messages }}', '{{ messages }}<tool_call>', '{{ tools }}', '{{ tools_in_user_message }}<tool_call>']) {
    const refuses = refused(() => chatRequest({ messages: [{ role: 'user', content: 'hi' }], tools }, () => template));
    assert.equal(abilities(template, () => true).tools === null, refuses, template);
  }
  assert.equal(abilities('', () => true).tools, null);
});

test('calls are forced where there is a grammar of them, and held where a token marks their begin', () => {
  const vocabulary = new Vocabulary(new FakeEngine().vocabulary(), []);
  for (const [template, required, strict] of FORMS) {
    assert.deepEqual(abilities(template, () => true).tools, { required, strict }, template);
    assert.deepEqual(abilities(template, () => false).tools, { required, strict: false }, template);
    const none = refused(() => callGrammar(formOf(template), template, vocabulary, tools, { once: false }));
    assert.equal(none, !required, template);
  }
});

test('thoughts are known too', () => {
  const thinks = (template: string) => abilities(template, () => true).reasoning;
  assert.deepEqual(['</think>', '<|channel|><|message|>', '{{ messages }}'].map(thinks), [true, true, false]);
});

for (const { name, engine } of PLACES) {
  test(`info tells it ${name}`, async () => {
    const wasm = new FakeEngine();
    wasm.templateText = '{{ messages }}</think>';
    wasm.toolTemplateText = '{{ tools }}<tool_call></think>';
    const plain = await engine(wasm);
    assert.deepEqual(plain.info().model, { name: 'fake', tools: { required: true, strict: false }, reasoning: true });
    await plain.dispose();
    const marked = new FakeEngine();
    marked.templateText = wasm.toolTemplateText;
    marked.tokenize = (text) => Uint32Array.from(text === '<tool_call>' ? [1, 2, 3] : [1, ...text.split('').map(() => 2), 3]);
    const held = await engine(marked);
    assert.deepEqual(held.info().model.tools, { required: true, strict: true });
    await held.dispose();
  });
}
