/** Answers taken apart: each form, cut at every place. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerReader } from '../src/openai/answer.js';
import type { Called } from '../src/openai/calls.js';
import { formOf } from '../src/openai/forms.js';
import type { ChatTool } from '../src/openai/types.js';

const TOOLS: ChatTool[] = ['weather', 'now', 'brave_search'].map((name) => ({
  type: 'function', function: { name, parameters: { type: 'object', properties: { city: { type: 'string' }, days: { type: 'number' } } } },
}));
/** Control tokens of the forms, longest first; others in an answer are text. */
const CONTROLS = /(<\|[a-z_"]+\|?>|<tool_call\|>|<channel\|>|<(?:start|end)_function_call>|<escape>|\[\/?[A-Z_]+\])/;

interface Read {
  text: string;
  thought: string;
  calls: Called[];
}

/** All that an answer says, read in pieces of `size` characters; control tokens come as such. */
function read(template: string, answer: string, size: number, { tools = TOOLS, promptEnd = '' } = {}): Read {
  const reader = answerReader(formOf(template), tools, promptEnd);
  const pieces = answer.split(CONTROLS).filter((part) => part !== '').flatMap((part): [string, boolean][] => {
    if (CONTROLS.test(part)) return [[part, true]];
    return Array.from({ length: Math.ceil(part.length / size) }, (_, i) => [part.slice(i * size, (i + 1) * size), false]);
  });
  const said: Read = { text: '', thought: '', calls: [] };
  for (const delta of [...pieces.flatMap(([piece, control]) => reader.push(piece, control)), ...reader.end()]) {
    if ('text' in delta) said.text += delta.text;
    else if ('thought' in delta) said.thought += delta.thought;
    else said.calls.push(delta.call);
  }
  return said;
}

/** The same however the answer is cut. */
function readEveryWay(template: string, answer: string, more = {}): Read {
  const whole = read(template, answer, answer.length + 1, more);
  for (let size = 1; size < Math.min(answer.length, 24); size++) assert.deepEqual(read(template, answer, size, more), whole, `pieces of ${size}`);
  return whole;
}

const GENEVA = { name: 'weather', arguments: '{"city":"Genève"}' };
const NOW = { name: 'now', arguments: '{}' };

const HERMES = '{{ tools }} <tool_call> </tool_call>';
const QWEN3 = `${HERMES} <think></think>`;
const LLAMA = 'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}. <|python_tag|>';
const MISTRAL = "{{ '[TOOL_CALLS]' }} [THINK]";
const GPT_OSS = '<|start|>assistant<|channel|>analysis<|message|>';
const GEMMA4 = '<|tool_call>call: <|channel>';
const FUNCTION_GEMMA = '<start_function_call>';
const LFM2 = '<|tool_list_start|>';
const GRANITE = '<|tool_call|>';

const CALLS: [string, string, Called[], string][] = [
  [HERMES, '<tool_call>\n{"name": "weather", "arguments": {"city": "Genève"}}\n</tool_call>', [GENEVA], ''],
  [HERMES, 'Let me look.\n\n<tool_call>{"name":"weather","arguments":{"city":"Genève"}}</tool_call>\n<tool_call>{"name":"now","arguments":{}}</tool_call>\n', [GENEVA, NOW], 'Let me look.'],
  [HERMES, '<tool_call>\n<function=weather>\n<parameter=city>\nGenève\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>',
    [{ name: 'weather', arguments: '{"city":"Genève","days":3}' }], ''],
  [HERMES, '<tool_call><function=weather><parameter=city>3</parameter><parameter=x>[1, "a"]</parameter><parameter=y>plain</parameter></function></tool_call>',
    [{ name: 'weather', arguments: '{"city":"3","x":[1,"a"],"y":"plain"}' }], ''],
  [LLAMA, '{"name": "weather", "parameters": {"city": "Genève"}}', [GENEVA], ''],
  [LLAMA, '<|python_tag|>{"name": "weather", "parameters": {"city": "Genève"}}; {"name": "now", "parameters": {}}', [GENEVA, NOW], ''],
  [LLAMA, '<|python_tag|>brave_search.call(query="a \\"b\\"")', [{ name: 'brave_search', arguments: '{"query":"a \\"b\\""}' }], ''],
  [MISTRAL, '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Genève"}}, {"name": "now", "arguments": {}}]', [GENEVA, NOW], ''],
  [MISTRAL, 'So:[TOOL_CALLS]weather[ARGS]{"city": "Genève"}[TOOL_CALLS]now[CALL_ID]123456789[ARGS]{}', [GENEVA, NOW], 'So:'],
  [MISTRAL, '[TOOL_CALLS]weather{"city": "Genève"}', [GENEVA], ''],
  [GEMMA4, '<|tool_call>call:weather{city:<|"|>Genève<|"|>}<tool_call|><|tool_call>call:now{}<tool_call|>', [GENEVA, NOW], ''],
  [GEMMA4, '<|tool_call>call:now{a:[1,-2.5],b:{c:true,d:null},e:<|"|>x:{,}<|"|>}<tool_call|>',
    [{ name: 'now', arguments: '{"a":[1,-2.5],"b":{"c":true,"d":null},"e":"x:{,}"}' }], ''],
  [FUNCTION_GEMMA, '<start_function_call>call:weather{city:<escape>Genève<escape>}<end_function_call>', [GENEVA], ''],
  [LFM2, '<|tool_call_start|>[weather(city="Genève"), now()]<|tool_call_end|>', [GENEVA, NOW], ''],
  [LFM2, "<|tool_call_start|>[weather(city='it\\'s', days=[1, 2.5e1], a={'k': None, \"l\": (1) }.x)]<|tool_call_end|>Hm.", [],
    "<|tool_call_start|>[weather(city='it\\'s', days=[1, 2.5e1], a={'k': None, \"l\": (1) }.x)]<|tool_call_end|>Hm."],
  [LFM2, "<|tool_call_start|>[weather(city='it\\'s', days=[1, 2.5e1,], a={'k': None, \"l\": True})]<|tool_call_end|>Wait.",
    [{ name: 'weather', arguments: '{"city":"it\'s","days":[1,25],"a":{"k":null,"l":true}}' }], 'Wait.'],
  [LFM2, '<|tool_call_start|>[{"name": "now", "arguments": {}}]<|tool_call_end|>', [NOW], ''],
  [GRANITE, '<|tool_call|>[{"name": "weather", "arguments": {"city": "Genève"}}]', [GENEVA], ''],
  [GPT_OSS, '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city":"Genève"}<|call|>', [GENEVA], ''],
  [GPT_OSS, ' to=functions.now<|channel|>commentary<|message|>{}', [NOW], ''],
];
CALLS.forEach(([template, answer, calls, text], i) => {
  test(`calls of form ${template.slice(0, 24)} (${i}) are read`, () => {
    const said = readEveryWay(template, answer, { promptEnd: template === GPT_OSS ? '<|start|>assistant' : '' });
    assert.deepEqual([said.calls, said.text], [calls, text]);
  });
});

test('a broken call is given back as it came', () => {
  for (const [template, answer] of [
    [HERMES, 'a <tool_call>{"name": "weather", "arguments": {"city": </tool_call> b'],
    [HERMES, '<tool_call>{"name": "weather"'],
    [HERMES, '<tool_call>{"name": "", "arguments": {}}</tool_call>'],
    [HERMES, '<tool_call>{"name": "weather", "arguments": "x"}</tool_call>'],
    [HERMES, 'a <tool_cal'],
    [LLAMA, '{"name": "unknown", "parameters": {}}'],
    [LLAMA, '{"a": 1}'],
    [MISTRAL, '[TOOL_CALLS][{"name": '],
    [GEMMA4, '<|tool_call>call:now{a:<|"|>x}<tool_call|>'],
    [LFM2, '<|tool_call_start|>[now(]<|tool_call_end|>'],
    [LFM2, `<|tool_call_start|>[now(a=${'['.repeat(5000)})]<|tool_call_end|>`],
  ] as const) {
    assert.deepEqual(readEveryWay(template, answer), { text: answer, thought: '', calls: [] });
  }
  const header = '<|start|>assistant<|channel|>commentary to=functions.now<|message|>';
  const said = readEveryWay(GPT_OSS, '<|channel|>commentary to=functions.now<|message|>{<|call|>', { promptEnd: '<|start|>assistant' });
  assert.deepEqual(said, { text: `${header}{<|call|>`, thought: '', calls: [] });
});

test('without tools a call is text', () => {
  const answer = '<tool_call>{"name": "now", "arguments": {}}</tool_call>';
  assert.deepEqual(readEveryWay(HERMES, answer, { tools: [] }), { text: answer, thought: '', calls: [] });
});

test('thoughts are apart, whoever opened them', () => {
  const thought = { text: 'Four.', thought: '2 + 2\n\nis 4', calls: [] };
  assert.deepEqual(readEveryWay(QWEN3, '<think>\n2 + 2\n\nis 4\n</think>\n\nFour.'), thought);
  assert.deepEqual(readEveryWay(QWEN3, '\n2 + 2\n\nis 4\n</think>\n\nFour.', { promptEnd: '<|im_start|>assistant\n<think>\n' }), thought);
  assert.deepEqual(readEveryWay(MISTRAL, '[THINK]2 + 2\n\nis 4[/THINK]Four.'), thought);
  assert.deepEqual(readEveryWay(GEMMA4, '<|channel>thought\n2 + 2\n\nis 4<channel|>Four.'), thought);
  assert.deepEqual(readEveryWay(GEMMA4, '2 + 2\n\nis 4<channel|>Four.', { promptEnd: '<|turn>model\n<|channel>thought\n' }), thought);
  const channels = '<|channel|>analysis<|message|>2 + 2\n\nis 4<|end|><|start|>assistant<|channel|>final<|message|>Four.<|return|>';
  assert.deepEqual(readEveryWay(GPT_OSS, channels, { promptEnd: '<|end|><|start|>assistant' }), thought);
});

test('no thoughts, empty ones, and those that never end', () => {
  assert.deepEqual(readEveryWay(QWEN3, ' Four. '), { text: ' Four. ', thought: '', calls: [] });
  assert.deepEqual(readEveryWay(QWEN3, 'Four.', { promptEnd: '<think>\n\n</think>\n\n' }), { text: 'Four.', thought: '', calls: [] });
  assert.deepEqual(readEveryWay(QWEN3, '<think>\n\n</think>\n\nFour.'), { text: 'Four.', thought: '', calls: [] });
  assert.deepEqual(readEveryWay(QWEN3, '<think>so <tool_call> is '), { text: '', thought: 'so <tool_call> is', calls: [] });
  assert.deepEqual(readEveryWay(QWEN3, 'It is <think> here </think>.'), { text: 'It is <think> here </think>.', thought: '', calls: [] });
  const said = readEveryWay(QWEN3, '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>');
  assert.deepEqual(said, { text: '', thought: 'hm', calls: [NOW] });
});

test('text streams up to where a mark may begin', () => {
  const reader = answerReader(formOf(HERMES), TOOLS, '');
  assert.deepEqual(reader.push('One ', false), [{ text: 'One' }]);
  assert.deepEqual(reader.push('two <too', false), [{ text: ' two' }]);
  assert.deepEqual(reader.push('ls', false), [{ text: ' <tools' }]);
  assert.deepEqual(reader.push('<|other|>', true), []);
  assert.deepEqual(reader.end(), []);
});

test('keys of objects are members, whatever they are called', () => {
  const said = readEveryWay(GEMMA4, '<|tool_call>call:now{__proto__:{a:1}}<tool_call|>');
  assert.deepEqual(said.calls, [{ name: 'now', arguments: '{"__proto__":{"a":1}}' }]);
});
