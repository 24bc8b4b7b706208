// Functions that a model calls in the demo: what it may give them, the documents it reads, the prompt of the next round.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { callAll, documentsOf, partsOf, promptOf, toolsFor } = await load(
  'functions/functions.ts',
  'functions/documents.ts',
  'state/prompt.ts',
);

const lines = (n) => Array.from({ length: n }, (_, i) => `Line ${i} of the notes.\n`).join('');
const notes = { name: 'notes.txt', text: `${lines(200)}The heron stands on one leg.\n${lines(100)}` };
const chat = {
  system: '',
  messages: [{ id: 'q', role: 'user', text: 'What does the heron do?', attachments: [notes] }],
};
const documents = documentsOf(chat);
const call = (name, given) => callAll([{ name, arguments: given }], documents)[0];
const failed = (name, given, sentence) => {
  const made = call(name, given);
  assert.equal(made.failed, true, `${name} ${given.slice(0, 50)}`);
  assert.match(made.result, sentence);
  assert.ok(made.result.length < 1500 && made.name.length <= 64);
  JSON.parse(made.arguments); // goes back into a prompt
};

test('a call has a result', () => {
  assert.deepEqual(call('calculate', '{"expression":"6 * 7"}'), {
    name: 'calculate',
    arguments: '{"expression":"6 * 7"}',
    result: '42',
  });
  assert.equal(call('calculate', '{"expression":7}').result, '7');
  assert.match(call('current_time', '').result, /\d\d:\d\d:\d\d .*UTC: \d{4}-\d\d-\d\dT/);
  assert.match(
    call('read_document', '{"query":"Where does the heron stand?"}').result,
    /^notes.txt, part 3 of 4:\n[^]*heron/,
  );
  assert.match(call('read_document', '{}').result, /^notes.txt, part 1 of 4:\nLine 0/);
  assert.match(call('read_document', '{"name":"notes.txt","part":"4","query":null}').result, /part 4 of 4/);
  assert.match(call('read_document', '{"name":"about-this-page.md"}').result, /A language model runs in this page/);
});

test('whatever a model gives is a result that says what is wrong', () => {
  failed('calculate', '{', /not JSON/);
  failed('calculate', '[1]', /not a JSON object/);
  failed('calculate', 'null', /not a JSON object/);
  failed('calculate', '{}', /expression is missing/);
  failed('calculate', '{"__proto__":{"expression":"1"}}', /expression is missing/);
  failed('calculate', '{"expression":{"a":1}}', /must be a text/);
  failed('calculate', JSON.stringify({ expression: '1'.repeat(20_000) }), /longer than 10,000/);
  failed('calculate', '{"expression":"1/0"}', /divided by zero/);
  for (const name of ['__proto__', 'constructor', 'toString', 'x'.repeat(1e6)])
    failed(name, '{}', /There is no function/);
  failed('read_document', '{"name":"../../etc/passwd"}', /There are: about-this-page.md, notes.txt/);
  failed('read_document', '{"part":0}', /1 or more/);
  failed('read_document', '{"part":5}', /parts 1 to 4/);
  failed('read_document', '{"part":1.5}', /whole number/);
  failed('read_document', '{"query":"xylophone"}', /None of these words/);
  failed('read_document', '{"name":["notes.txt"]}', /must be a text/);
});

test('too many calls at once are told so, once', () => {
  const many = callAll(Array(1000).fill({ name: 'calculate', arguments: '{"expression":"1"}' }), documents);
  assert.equal(many.length, 9);
  assert.equal(many.filter((made) => made.failed).length, 1);
  assert.match(many[8].result, /at most 8/);
});

test('parts are a whole document, none longer than may be, and end at lines', () => {
  for (const text of ['', 'a', notes.text, 'x'.repeat(5000), 'word '.repeat(1001), '\n'.repeat(4001)]) {
    const parts = partsOf(text);
    assert.equal(parts.join(''), text);
    assert.ok(parts.length >= 1 && parts.every((part) => part.length <= 2000));
  }
  assert.ok(partsOf(notes.text).every((part) => part.endsWith('\n')));
});

test('a later file stands for an earlier one of its name, and the schemas name them all', () => {
  const later = {
    messages: [...chat.messages, { role: 'user', text: '', attachments: [{ name: 'notes.txt', text: 'Short.' }] }],
  };
  assert.deepEqual(
    documentsOf(later).map(({ text }) => text.length < 10),
    [false, true],
  );
  const [calculate, read] = toolsFor(documents).map((tool) => tool.function);
  assert.deepEqual(calculate.parameters.required, ['expression']);
  assert.equal(calculate.parameters.additionalProperties, false);
  assert.match(read.description, /notes.txt, about-this-page.md/);
  const hostile = { name: 'n'.repeat(120), text: '' };
  assert.ok(toolsFor(Array(1000).fill(hostile))[1].function.description.length < 600);
});

test('results go back as messages of the tool, and are left out for a model that takes none', () => {
  const answered = {
    system: 'Be short.',
    messages: [
      ...chat.messages,
      {
        role: 'assistant',
        text: '',
        reasoning: 'I look.',
        calls: [call('calculate', '{"expression":"1"}'), call('no', '{}')],
      },
      { role: 'assistant', text: 'It stands.' },
    ],
  };
  const [system, question, called, ...rest] = promptOf(answered, true);
  assert.equal(system.content, 'Be short.');
  assert.match(question.content, /^Documents to read by read_document: notes.txt \(\d+ characters\)\n\nWhat does/);
  assert.deepEqual(called, {
    role: 'assistant',
    content: '',
    reasoning_content: 'I look.',
    tool_calls: [
      { id: 'call00000', type: 'function', function: { name: 'calculate', arguments: '{"expression":"1"}' } },
      { id: 'call00001', type: 'function', function: { name: 'no', arguments: '{}' } },
    ],
  });
  assert.deepEqual(
    rest.map(({ role, tool_call_id: id }) => [role, id]),
    [
      ['tool', 'call00000'],
      ['tool', 'call00001'],
      ['assistant', undefined],
    ],
  );
  assert.equal(rest[0].content, '1');
  const without = promptOf(answered);
  assert.deepEqual(
    without.map(({ role }) => role),
    ['system', 'user', 'assistant'],
  );
  assert.match(without[1].content, /^notes.txt:\n```\nLine 0/);
});
