// Answers that are held to a form, in Node with the package as it is shipped.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import Ajv from 'ajv/dist/2020.js';
import { Engine } from '../../crates/rlx-wasm/js/dist/index.js';
import { answerReader } from '../../crates/rlx-wasm/js/dist/openai/answer.js';
import { formOf } from '../../crates/rlx-wasm/js/dist/openai/forms.js';
import { hold } from '../../crates/rlx-wasm/js/dist/openai/held.js';
import { SCHEMAS } from '../support/schemas.mjs';

const MODEL = new URL('../fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf', import.meta.url);
const ajv = new Ajv({ strict: false, validateFormats: false });
const messages = [{ role: 'user', content: 'What does Vec::push do?' }];

async function withEngine(work) {
  const engine = await Engine.load({ model: MODEL.pathname, device: 'cpu' });
  try {
    await work(engine);
  } finally {
    await engine.dispose();
  }
}

test('a thousand answers at random to fifty schemas are of their schemas', () => withEngine(async (engine) => {
  assert.equal(SCHEMAS.length, 50);
  const texts = new Set();
  for (const [i, schema] of SCHEMAS.entries()) {
    const validate = ajv.compile(schema);
    const { choices } = await engine.chat.completions.create({
      messages, n: 20, seed: 100 * i, temperature: 2, max_tokens: 400, response_format: { type: 'json_schema', json_schema: { name: 'it', schema } },
    });
    for (const { message, finish_reason } of choices) {
      const what = `${JSON.stringify(schema)}: ${message.content}`;
      assert.equal(finish_reason, 'stop', what);
      assert.ok(validate(JSON.parse(message.content)), what);
      texts.add(message.content);
    }
  }
  assert.ok(texts.size > 500, `${texts.size} different texts`);
}));

test('grammars hold texts as they hold chats; what is no grammar is told before anything is computed', () => withEngine(async (engine) => {
  const text = async (grammar) => {
    const { choices: [{ text, finish_reason }] } = await engine.completions.create({ prompt: 'fn', grammar, seed: 3, temperature: 1, max_tokens: 200 });
    assert.equal(finish_reason, 'stop', text);
    return text;
  };
  const regex = '(yes|no), [a-z]{3,9}[.!]';
  assert.match(await text({ syntax: 'regex', definition: regex }), new RegExp(`^${regex}$`));
  const gbnf = 'root ::= "a" list{2} "ü"?\nlist ::= "[" ( [0-9]{1,3} | "x" ) "]" # numbers in brackets\n';
  assert.match(await text(gbnf), /^a(\[([0-9]{1,3}|x)\]){2}ü?$/);
  assert.equal(await text({ syntax: 'lark', definition: 'start: "x" %json {"const": [1], "x-guidance": {"whitespace_flexible": false}}' }), 'x[1]');
  for (const [asked, at] of [
    [{ grammar: 'root = "a"' }, 'line 1 of the grammar'], [{ grammar: { syntax: 'regex', definition: '(a' } }, 'grammar'],
    [{ grammar: { syntax: 'ebnf', definition: 'a' } }, 'grammar'], [{ grammar: { syntax: 'gbnf', text: 'a' } }, 'grammar.text'],
    [{ response_format: { type: 'json_schema', json_schema: { schema: { type: 'strin' } } } }, 'grammar'],
    [{ response_format: { type: 'json_schema', json_schema: { schema: { contains: {} } } } }, 'grammar'],
    [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema'], [{ response_format: { type: 'xml' } }, 'response_format'],
    [{ response_format: { type: 'json_object' }, grammar: 'root ::= "a"' }, 'grammar'],
  ]) await assert.rejects(engine.chat.completions.create({ messages, ...asked }), { code: 'usage', at }, JSON.stringify(asked));
  // The engine works on, without a form.
  const { choices } = await engine.chat.completions.create({ messages, max_tokens: 5, temperature: 0 });
  assert.equal(choices[0].finish_reason, 'length');
}));

test('the module may be given, as bytes; one that is none is an error of the call alone', async () => {
  const bytes = readFileSync(new URL('../../crates/rlx-wasm/js/dist/rlx-grammar.wasm', import.meta.url));
  const asked = { messages, grammar: 'root ::= "a"', temperature: 0 };
  const given = await Engine.load({ model: MODEL.pathname, device: 'cpu', grammarWasm: bytes });
  assert.equal((await given.chat.completions.create(asked)).choices[0].message.content, 'a');
  await given.dispose();
  const broken = await Engine.load({ model: MODEL.pathname, device: 'cpu', grammarWasm: new Uint8Array(8) });
  for (let i = 0; i < 2; i++) await assert.rejects(broken.chat.completions.create(asked), { code: 'io', at: 'wasm' });
  assert.equal((await broken.chat.completions.create({ messages, max_tokens: 2 })).usage.completion_tokens, 2);
  await broken.dispose();
});

test('an answer of a form is in no one\'s way: aborted, cut off by length, beside another', () => withEngine(async (engine) => {
  const form = { messages, response_format: { type: 'json_object' }, seed: 1, temperature: 1 };
  const cut = await engine.chat.completions.create({ ...form, max_tokens: 4 });
  assert.deepEqual([cut.choices[0].finish_reason, cut.usage.completion_tokens], ['length', 4]);
  const abort = new AbortController();
  const chunks = await engine.chat.completions.create({ ...form, stream: true, signal: abort.signal });
  await assert.rejects(async () => {
    for await (const _ of chunks) abort.abort();
  }, { code: 'cancelled' });
  const both = [form, { messages, max_tokens: 3, temperature: 0 }].map((it) => engine.chat.completions.create({ max_tokens: 6, ...it }));
  const [held, free] = await Promise.all(both);
  assert.match(held.choices[0].message.content, /^\s*\{/);
  assert.doesNotMatch(free.choices[0].message.content, /^\s*\{/);
}));

/** A model without weights: it draws among the tokens that it may take, or takes what it wants. */
class Dice {
  #state;
  constructor(texts, template, seed) {
    // Every byte, so that every text can be written; marks; ends.
    const bytes = Array.from({ length: 256 }, (_, byte) => [0, [byte]]);
    const tokens = [...bytes, ...texts.map((text) => [1, [...Buffer.from(text)]]), [2, [...Buffer.from('<end>')]]];
    this.end = tokens.length - 1;
    this.tokens = tokens.map(([kind, text]) => ({ kind, text: Buffer.from(text) }));
    const blob = this.tokens.flatMap(({ kind, text }) => [kind, text.length, 0, 0, 0, ...text]);
    this.vocabulary = () => Uint8Array.from(blob);
    this.template = () => template;
    this.detokenize = (ids) => Buffer.concat([...ids].map((id) => this.tokens[id].text)).toString();
    this.#state = seed + 1;
  }

  draw(n) {
    this.#state = (Math.imul(this.#state, 1103515245) + 12345) & 0x7fffffff;
    return (this.#state >>> 8) % n;
  }

  /** Writes an answer; `wishes` are texts that it begins with, where nothing else may come. */
  answer(held, form, tools, promptEnd, wishes = []) {
    held.begin(promptEnd);
    const reader = answerReader(form, tools, promptEnd);
    const out = [];
    const wanted = wishes.flatMap((wish) => this.idsOf(wish));
    let bytes = [];
    let last = new Uint32Array();
    for (let n = 0; n < 4000; n++) {
      const bits = held.next(last);
      assert.notEqual(typeof bits, 'string', String(bits));
      const may = (id) => bits === undefined || (bits[id >>> 5] >>> (id & 31)) & 1;
      const all = this.tokens.map((_, id) => id).filter(may);
      assert.ok(all.length > 0);
      let id = wanted.length > 0 ? wanted.shift() : undefined;
      if (id === undefined) id = bits === undefined || may(this.end) ? this.end : all[this.draw(all.length)];
      assert.ok(may(id), `${this.tokens[id].text} may not come`);
      last = Uint32Array.of(id);
      if (id === this.end) {
        held.end();
        out.push(...reader.end());
        return out;
      }
      const control = this.tokens[id].kind !== 0;
      if (control) out.push(...reader.push(this.tokens[id].text.toString(), true));
      else {
        bytes.push(this.tokens[id].text[0]);
        const text = Buffer.from(bytes).toString();
        if (!text.includes('\ufffd')) {
          out.push(...reader.push(text, false));
          bytes = [];
        }
      }
    }
    throw new Error('an answer without end');
  }

  /** A text as tokens: its marks, else bytes. */
  idsOf(text) {
    const mark = this.tokens.findIndex((token) => token.kind !== 0 && token.text.toString() === text);
    return mark >= 0 ? [mark] : [...Buffer.from(text)];
  }
}

const TOOLS = [
  { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string', maxLength: 6 }, days: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['city'], additionalProperties: false } } },
  { type: 'function', function: { name: 'now', parameters: { type: 'object', properties: {}, additionalProperties: false } } },
];

/** Templates' telling texts, the marks that are control tokens, and whether calls may be held in the midst of text. */
const FORMS = [
  ['Hermes', '{{ tools }} <tool_call> {"name": ...} </tool_call>', ['<tool_call>', '</tool_call>'], true],
  ['Hermes, marks as text', '{{ tools }} <tool_call> </tool_call>', [], false],
  ['Qwen3-Coder', '{{ tools }} <tool_call> <function=f> <parameter=p>', ['<tool_call>', '</tool_call>'], true],
  ['Qwen3', '{{ tools }} <tool_call> </think>', ['<tool_call>', '</tool_call>', '<think>', '</think>'], true],
  ['Mistral', '{{ tools }} [TOOL_CALLS]', ['[TOOL_CALLS]'], true],
  ['Mistral, newer', '{{ tools }} [TOOL_CALLS] [ARGS]', ['[TOOL_CALLS]', '[ARGS]'], true],
  ['LFM2', '{{ tools }} <|tool_call_start|>', ['<|tool_call_start|>', '<|tool_call_end|>'], true],
  ['Granite', '{{ tools }} <|tool_call|>', ['<|tool_call|>'], true],
  ['Llama 3', '{{ tools }} "parameters": dictionary of argument', ['<|python_tag|>'], false],
  ['gpt-oss', '{{ tools }} <|channel|> <|message|>', ['<|channel|>', '<|message|>', '<|constrain|>', '<|start|>', '<|end|>'], false],
];

const argumentsAre = ajv.compile({ anyOf: TOOLS.map(({ function: { parameters } }) => parameters) });
function checkCalls(deltas, what) {
  const calls = deltas.filter((delta) => 'call' in delta).map(({ call }) => call);
  for (const call of calls) {
    const tool = TOOLS.find(({ function: { name } }) => name === call.name);
    assert.ok(tool && ajv.validate(tool.function.parameters, JSON.parse(call.arguments)), `${what}: ${JSON.stringify(call)}`);
  }
  return calls;
}

/** What an answer has of a kind: text or thoughts. */
const parts = (deltas, kind) => deltas.filter((delta) => kind in delta).map((delta) => delta[kind]).join('');

for (const [name, template, marks, within] of FORMS) {
  test(`${name}: a forced call is one of a function that was given, with its arguments`, async () => {
    const form = formOf(template);
    const names = new Set();
    for (let seed = 0; seed < 24; seed++) {
      const dice = new Dice(marks, template, 7919 * seed);
      const one = seed % 3 === 0;
      const asked = {
        tool_choice: seed % 2 === 0 ? 'required' : { type: 'function', function: { name: 'weather' } }, ...(one && { parallel_tool_calls: false }),
      };
      const held = (await hold({ engine: dice }, asked, form, TOOLS))();
      const thinks = marks.includes('<think>');
      const deltas = dice.answer(held, form, TOOLS, '<|start|>assistant', thinks ? ['<think>', 'so', '</think>', '\n'] : []);
      const calls = checkCalls(deltas, name);
      assert.ok(calls.length > 0 && (!one || calls.length === 1), `${name}: ${JSON.stringify(deltas)}`);
      assert.ok(deltas.every((delta) => 'call' in delta || thinks || delta.text?.trim() === ''), JSON.stringify(deltas));
      if (thinks) assert.equal(parts(deltas, 'thought'), 'so');
      if (seed % 2 === 1) assert.ok(calls.every((call) => call.name === 'weather'));
      calls.forEach((call) => names.add(call.name));
    }
    assert.deepEqual([...names].sort(), ['now', 'weather']);
  });

  test(`${name}: strict holds a call in the midst of text${within ? '' : ', or is refused'}`, async () => {
    const form = formOf(template);
    const strict = TOOLS.map((tool) => ({ ...tool, function: { ...tool.function, strict: true } }));
    const dice = new Dice(marks, template, 5);
    const making = hold({ engine: dice }, { parallel_tool_calls: false }, form, strict);
    if (!within) return assert.rejects(making, { code: 'usage', at: 'tools' });
    const deltas = dice.answer((await making)(), form, strict, '', ['Let me see. ', form.calls.open]);
    assert.equal(parts(deltas, 'text'), 'Let me see.');
    assert.equal(checkCalls(deltas, name).length, 1, JSON.stringify(deltas));
  });
}

test('thoughts come before an answer of a form, where a model thinks', async () => {
  const schema = { type: 'object', properties: { a: { type: 'integer', minimum: 0, maximum: 9 } }, required: ['a'], additionalProperties: false };
  const asked = { response_format: { type: 'json_schema', json_schema: { schema } } };
  for (const [template, marks, promptEnd, wishes] of [
    ['</think>', ['<think>', '</think>'], '', ['<think>', 'hm', '</think>', '\n']],
    ['</think>', ['<think>', '</think>'], '<think>\n', ['hm', '</think>']],
    ['<|channel|> <|message|>', ['<|channel|>', '<|message|>', '<|start|>', '<|end|>'], '<|start|>assistant',
      ['<|channel|>', 'analysis', '<|message|>', 'hm', '<|end|>', '<|start|>', 'assistant', '<|channel|>', 'final', '<|message|>']],
  ]) {
    for (let seed = 0; seed < 10; seed++) {
      const dice = new Dice(marks, template, seed);
      const form = formOf(template);
      const deltas = dice.answer((await hold({ engine: dice }, asked, form, []))(), form, [], promptEnd, wishes);
      assert.equal(parts(deltas, 'thought'), 'hm', template);
      assert.ok(ajv.validate(schema, JSON.parse(parts(deltas, 'text'))), parts(deltas, 'text'));
    }
  }
  // A model that opens thoughts by no token of its own cannot be followed.
  const dice = new Dice([], '</think>', 1);
  const held = (await hold({ engine: dice }, asked, formOf('</think>'), []))();
  assert.throws(() => held.begin('<think>'), { code: 'usage', at: 'messages' });
});

test('a model may call in place of an answer of a form', async () => {
  const template = FORMS[0][1];
  const form = formOf(template);
  const asked = { response_format: { type: 'json_object' } };
  const dice = new Dice(FORMS[0][2], template, 3);
  const making = await hold({ engine: dice }, asked, form, TOOLS);
  const called = dice.answer(making(), form, TOOLS, '', ['<tool_call>', '\n{"name": "now", "arguments": {}}\n', '</tool_call>']);
  assert.equal(checkCalls(called, 'in place').length, 1);
  const answered = dice.answer(making(), form, TOOLS, '', ['{}']);
  assert.equal(parts(answered, 'text'), '{}');
});
