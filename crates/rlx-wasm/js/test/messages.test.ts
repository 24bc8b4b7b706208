/** What templates are given of OpenAI's messages and options. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chatRequest } from '../src/openai/chat_request.js';
import { templateMessages } from '../src/openai/messages.js';
import type { ChatRequest, ChatTool } from '../src/openai/types.js';

const QWEN = "{{ tools }}<tool_call></tool_call>{% if enable_thinking %}<think></think>{% endif %}{{ message.tool_calls | tojson }}{{ message.reasoning_content }}";
const user = { role: 'user', content: 'hi' } as const;
const tool: ChatTool = { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } };
const call = { id: 'abcdefghi', type: 'function', function: { name: 'weather', arguments: '{"city":"Genève"}' } } as const;

test('parts are lines, null is no text, and a developer is the system where the template knows none', () => {
  const messages = [
    { role: 'developer', content: [{ type: 'text', text: 'Be' }, { type: 'text', text: 'brief.' }] },
    { role: 'user', content: 'hi', name: 'ann' },
    { role: 'assistant', content: null, tool_calls: [call], refusal: null },
    { role: 'tool', content: 'rain', tool_call_id: call.id },
    { role: 'assistant', content: 'It rains.', tool_calls: [], annotations: [] },
  ];
  const made = templateMessages(messages, QWEN);
  assert.deepEqual(made, [
    { role: 'system', content: 'Be\nbrief.' },
    { role: 'user', content: 'hi', name: 'ann' },
    { role: 'assistant', content: '', tool_calls: [{ ...call, function: { name: 'weather', arguments: { city: 'Genève' } } }] },
    { role: 'tool', content: 'rain', tool_call_id: call.id },
    { role: 'assistant', content: 'It rains.' },
  ]);
  assert.equal(templateMessages(messages.slice(0, 1), "{% if role == 'developer' %}")[0]!.role, 'developer');
});

test('arguments stay a text where the template joins texts', () => {
  const messages = [user, { role: 'assistant', tool_calls: [call] }];
  const given = (template: string) => templateMessages(messages, template)[1]!.tool_calls![0]!.function.arguments;
  assert.equal(given("tool_calls {{ tool['function']['arguments'] + '\\n' }}"), call.function.arguments);
  assert.deepEqual(given("tool_calls {{ call.arguments if call.arguments is string else call.arguments + '' }}"), { city: 'Genève' });
});

test('thoughts go back under the name that the template reads, or not at all', () => {
  const thought = (template: string) => templateMessages([user, { role: 'assistant', content: 'x', reasoning_content: 'hm' }], template)[1];
  assert.deepEqual(thought(QWEN), { role: 'assistant', content: 'x', reasoning_content: 'hm' });
  assert.deepEqual(thought('{{ message.thinking }}'), { role: 'assistant', content: 'x', thinking: 'hm' });
  assert.deepEqual(thought('{{ message.content }}'), { role: 'assistant', content: 'x' });
});

test('calls that cannot be told to the template are refused', () => {
  const refused = (message: object, template: string, what: string) =>
    assert.throws(() => templateMessages([message], template), { code: 'usage', what });
  refused({ role: 'assistant', tool_calls: [call] }, '', "the model's chat template has no place for tool_calls");
  refused({ role: 'assistant', tool_calls: [{ ...call, function: { name: 'f', arguments: '{' } }] }, QWEN, 'arguments is no JSON');
  refused({ role: 'assistant', tool_calls: [{ id: 'a', type: 'custom' }] }, QWEN, 'a call is of type custom, it must be function');
  refused({ role: 'assistant', tool_calls: {} }, QWEN, 'tool_calls must be a list');
  refused({ role: 'assistant', content: null }, QWEN, 'content must be a text');
});

const checked = (request: Partial<ChatRequest>, template = QWEN) => chatRequest({ messages: [user], ...request }, () => template);

test('tools and variables reach the template; none keeps the tools from it', () => {
  const { wasm, tools } = checked({ tools: [tool], tool_choice: 'auto', parallel_tool_calls: true, chat_template_kwargs: { enable_thinking: false } });
  assert.deepEqual([wasm.variables, wasm.controls, tools], [{ tools: [tool], enable_thinking: false }, true, [tool]]);
  const none = checked({ tools: [tool], tool_choice: 'none' });
  assert.deepEqual([none.wasm.variables, none.tools], [{}, []]);
  assert.deepEqual(checked({ reasoning_effort: 'none' }).wasm.variables, { enable_thinking: false });
  assert.deepEqual(checked({ reasoning_effort: 'high' }).wasm.variables, {});
  assert.deepEqual(checked({ reasoning_effort: 'high' }, '{{ reasoning_effort }}').wasm.variables, { reasoning_effort: 'high' });
  assert.equal(checked({ max_completion_tokens: 7 }).wasm.max_tokens, 7);
});

test('what asks for a form is told apart from what asks for none', () => {
  const strict = { ...tool, function: { ...tool.function!, strict: true } };
  const held = (request: Partial<ChatRequest>) => checked(request).held !== undefined;
  for (const request of [
    { tools: [tool], parallel_tool_calls: false }, { tools: [tool], tool_choice: 'required' }, { tools: [strict] },
    { response_format: { type: 'json_object' } }, { grammar: 'root ::= "a"' },
  ] as const) assert.ok(held(request), JSON.stringify(request));
  for (const request of [
    {}, { tools: [tool], parallel_tool_calls: true }, { tools: [tool], tool_choice: 'auto' }, { tools: [strict], tool_choice: 'none' },
    { parallel_tool_calls: false }, { response_format: { type: 'text' } },
  ] as const) assert.ok(!held(request), JSON.stringify(request));
});

test('what the template cannot do is refused by name', () => {
  const refused = (request: Partial<ChatRequest>, what: string, hint: string, template?: string) =>
    assert.throws(() => checked(request, template), { code: 'usage', what, hint });
  refused({ chat_template_kwargs: { enable_thinkng: 1 } }, "the model's chat template has no variable enable_thinkng", 'did you mean enable_thinking?');
  refused({ chat_template_kwargs: { messages: [] } }, 'messages is no variable to give', '');
  refused({ tools: [tool] }, 'the form of the calls that this model writes is not known to RLX', 'use a model that was made for tools, or leave them out', '{{ tools }}');
});

test('a request with tools is read by the template for tools, where the model has one of its own', async () => {
  const asked: boolean[] = [];
  const of = (request: Partial<ChatRequest>) => chatRequest({ messages: [user], ...request }, (tools) => {
    asked.push(tools);
    return tools ? QWEN : 'plain';
  });
  assert.equal(of({ tools: [tool] }).tools.length, 1);
  assert.equal(of({ tools: [tool], tool_choice: 'none' }).tools.length, 0);
  of({ tools: [] });
  of({});
  assert.deepEqual(asked, [true, false, false, false]);
});

test('with tools too a template that cannot be read says so itself when the prompt is made', () => {
  const { wasm } = chatRequest({ messages: [user], tools: [tool] }, () => '');
  assert.deepEqual(wasm.variables, { tools: [tool] });
});
