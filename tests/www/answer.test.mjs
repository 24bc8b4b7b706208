// Answers of the demo in rounds: a model of a fixed text calls functions, is told their results, and goes on.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { load } from './load.mjs';

globalThis.requestAnimationFrame ??= (work) => setTimeout(work, 0);
globalThis.cancelAnimationFrame ??= clearTimeout;
const { ask, begin, busy, change, current, finished, loaded, remove, retry, RlxError, stop } = await load(
  'state/answer.ts',
  'state/conversations.ts',
  'state/engine.ts',
  '../../crates/rlx-wasm/js/dist/error.js',
);

const calculate = (expression, name = 'calculate') => ({
  delta: {
    tool_calls: [
      { index: 0, id: 'x', type: 'function', function: { name, arguments: JSON.stringify({ expression }) } },
    ],
  },
});
const text = (content) => ({ delta: { content } });

/** What the model was asked. */
let requests;
/** An engine whose answers are these, the last one again and again; `tools`: what its `info` says. */
function model(answers, tools = { required: true, strict: true }) {
  requests = [];
  const create = async (request) => {
    requests.push(request);
    const pieces = answers[Math.min(requests.length, answers.length) - 1];
    return (async function* () {
      for (const piece of pieces) {
        if (typeof piece === 'function') await piece();
        if (request.signal.aborted) throw new RlxError('cancelled', 'it was cancelled');
        if (typeof piece === 'object') yield { choices: [piece] };
      }
    })();
  };
  const engine = { info: () => ({ model: { name: 'fake', tools } }), chat: { completions: { create } } };
  loaded.value = { engine, source: { name: 'fake', model: 'fake.gguf' } };
}

const allow = (functions = true) => change(current.value.id, (it) => ({ ...it, functions }));
const said = () =>
  current.value.messages.map(({ role, text, calls, end }) => [role, text, calls?.map(({ result }) => result), end]);

beforeEach(() => {
  begin();
  allow();
});

test('the result of a call goes back, and the answer is told once', async () => {
  model([
    [text('I look.'), calculate('6 * 7')],
    [text('It is '), text('42.')],
  ]);
  const told = [];
  const off = finished.subscribe((message) => told.push(message?.text));
  await ask('What is 6 times 7?');
  off();
  assert.deepEqual(said(), [
    ['user', 'What is 6 times 7?', undefined, undefined],
    ['assistant', 'I look.', ['42'], undefined],
    ['assistant', 'It is 42.', undefined, undefined],
  ]);
  assert.deepEqual(told.slice(1), ['It is 42.']);
  assert.deepEqual(
    requests[0].tools.map((tool) => tool.function.name),
    ['calculate', 'read_document', 'current_time'],
  );
  assert.deepEqual(
    requests[1].messages.map(({ role }) => role),
    ['user', 'assistant', 'tool'],
  );
  assert.equal(requests[1].messages[2].content, '42');
  assert.equal(busy.value, false);
});

test('a function that fails is a result, and the model goes on', async () => {
  model([[calculate('1 / 0'), calculate('1', 'constructor')], [text('It cannot be.')]]);
  await ask('?');
  const [, { calls }] = current.value.messages;
  assert.deepEqual(
    calls.map(({ failed }) => failed),
    [true, true],
  );
  assert.match(requests[1].messages[2].content, /^Error: .*divided by zero/);
  assert.match(requests[1].messages[3].content, /^Error: There is no function/);
});

test('a model that only calls is stopped after six rounds', async () => {
  model([[calculate('1')]]);
  await ask('?');
  assert.equal(requests.length, 6);
  assert.equal(current.value.messages.length, 7);
  assert.equal(current.value.messages.at(-1).end, 'calls');
  assert.equal(busy.value, false);
});

test('stopping ends all rounds: in the middle of one, and between two', async () => {
  model([[calculate('1')], [text('It'), stop, text(' is')]]);
  await ask('?');
  assert.deepEqual(said().at(-1), ['assistant', 'It', undefined, 'stopped']);
  begin();
  model([
    [calculate('1'), { delta: {}, finish_reason: 'tool_calls' }, () => void setTimeout(stop, 0)],
    [() => new Promise((then) => setTimeout(then, 20)), text('no')],
  ]);
  await ask('?');
  assert.equal(said().at(-1)[3], 'stopped');
  assert.equal(current.value.messages.at(-1).text, '');
  begin();
  // The last piece of a round has come, and its functions are not called yet.
  model([[calculate('1'), text('x'), stop]]);
  await ask('?');
  assert.deepEqual(said().at(-1), ['assistant', 'x', undefined, 'stopped']);
  assert.equal(requests.length, 1);
});

test('a conversation that is deleted meanwhile ends, and no other is written to', async () => {
  model([[calculate('1'), () => remove(current.value.id)], [text('late')]]);
  await ask('?');
  assert.equal(requests.length, 1);
  assert.equal(busy.value, false);
  assert.deepEqual(current.value.messages, []);
});

test('asking again drops all rounds of an answer', async () => {
  model([[calculate('1')], [calculate('2')], [text('a')], [calculate('3')], [text('b')]]);
  await ask('?');
  await retry(current.value.messages.at(-1).id);
  assert.deepEqual(
    said().map(([, text, results]) => [text, results]),
    [
      ['?', undefined],
      ['', ['3']],
      ['b', undefined],
    ],
  );
  assert.deepEqual(
    requests[3].messages.map(({ role }) => role),
    ['user'],
  );
});

test('no functions are given where the chat allows none, or the model takes none', async () => {
  model([[text('Hi.')]]);
  allow(false);
  await ask('?');
  assert.equal('tools' in requests[0], false);
  model([[text('Hi.')]], null);
  allow();
  await ask('?');
  assert.equal('tools' in requests[0], false);
});
