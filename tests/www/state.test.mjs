// Parts of the demo that draw nothing: exported conversations, settings, numbers in words.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { exportText, importText, NotConversations } = await load('state/exchange.ts');
const { refusal, SETTINGS, validSettings } = await load('state/settings.ts');
const format = await load('ui/format.ts');

const chat = {
  id: 'a-1',
  title: 'Title',
  created: 1000,
  updated: 2000,
  model: 'a model',
  system: 'Be short.',
  settings: { temperature: 0.5, top_k: 40 },
  functions: true,
  messages: [
    { id: 'm', role: 'user', text: 'Hello', attachments: [{ name: 'a.txt', text: 'A' }] },
    {
      id: 'c',
      role: 'assistant',
      text: '',
      calls: [
        { name: 'calculate', arguments: '{"expression":"1"}', result: '1' },
        { name: 'constructor', arguments: '{"__proto__":1}', result: 'Error: no', failed: true },
      ],
    },
    {
      id: 'n',
      role: 'assistant',
      text: 'Hi',
      reasoning: 'They greet.',
      end: 'failed',
      fault: 'It broke.',
      speed: { tokens: 2, firstTokenMs: 10, tokensPerSecond: null },
    },
  ],
};
const file = (changes) =>
  JSON.stringify({ format: 'rlx-conversations', version: 1, conversations: [{ ...chat, ...changes }] });

const calling = (calls) => ({ role: 'assistant', text: '', calls });

test('what is exported comes back, but for the names of messages', () => {
  const [found] = importText(exportText([chat]));
  const nameless = ({ messages, ...rest }) => ({ ...rest, messages: messages.map(({ id, ...message }) => message) });
  assert.deepEqual(nameless(found), nameless(chat));
  assert.ok(found.messages.every(({ id }) => id.length > 8));
});

test('what is no export is refused with a sentence', () => {
  for (const [text, sentence] of [
    ['{', /not JSON/],
    ['null', /not exported by this page/],
    ['[]', /not exported/],
    ['{"format":"rlx-conversations","version":2}', /version 2/],
    ['{"format":"rlx-conversations","version":1}', /no list/],
    [file({ messages: {} }), /no messages/],
    [file({ messages: [null] }), /not an object/],
    [file({ title: 5 }), /title.*not a text/],
    [file({ messages: [{ role: 'user', text: 'x'.repeat(2_000_001) }] }), /longer than 2,000,000/],
    [file({ messages: [{ role: 'user', text: '', attachments: [{}] }] }), /attachment.*not a text/],
    [file({ messages: [calling({})] }), /calls that are no list of 1 to 100/],
    [file({ messages: [calling([])] }), /calls that are no list/],
    [file({ messages: [calling(Array(101).fill({}))] }), /calls that are no list/],
    [file({ messages: [calling([null])] }), /call that is not an object/],
    [file({ messages: [calling([{ name: 1, arguments: '{}', result: '' }])] }), /call.*not a text/],
    [file({ messages: [calling([{ name: 'f', arguments: '{', result: '' }])] }), /not a JSON object/],
    [file({ messages: [calling([{ name: 'f', arguments: '[]', result: '' }])] }), /not a JSON object/],
    [file({ messages: [calling([{ name: 'f', arguments: {}, result: '' }])] }), /call.*not a text/],
    [file({ messages: [calling([{ name: 'f', arguments: '{}' }])] }), /call.*not a text/],
    [file({ messages: Array(5001).fill({ role: 'user', text: '' }) }), /more than 5000 messages/],
  ])
    assert.throws(
      () => importText(text),
      (error) => error instanceof NotConversations && sentence.test(error.message),
      text.slice(0, 100),
    );
});

test('what an import does not know is left out, and what is of the wrong kind is not taken', () => {
  const [found] = importText(
    file({ id: '../../x', extra: 1, created: 'then', settings: { temperature: 9, top_k: 1.5, seed: 3, other: 1 } }),
  );
  assert.deepEqual(found.settings, { seed: 3 });
  assert.match(found.id, /^[\w-]+$/);
  assert.equal('extra' in found, false);
  const named = { name: 'n'.repeat(1e6), arguments: '{}', result: '', failed: 'yes' };
  const [{ messages }] = importText(
    file({ functions: 1, messages: [calling([named]), { ...calling([named]), role: 'user' }] }),
  );
  assert.deepEqual(messages[0].calls, [{ name: 'n'.repeat(64), arguments: '{}', result: '' }]);
  assert.equal('calls' in messages[1], false);
  assert.ok(found.created > 1e12 && found.updated >= found.created);
});

test('settings are held to what the package takes', () => {
  const setting = (name) => SETTINGS.find((each) => each.name === name);
  assert.equal(refusal(setting('temperature'), 2), undefined);
  assert.match(refusal(setting('temperature'), 2.1), /from 0 to 2/);
  assert.match(refusal(setting('top_k'), 1.5), /whole number/);
  assert.match(refusal(setting('seed'), -1), /0 or more/);
  assert.match(refusal(setting('min_p'), NaN), /is a number/);
  assert.deepEqual(validSettings('none'), {});
});

test('numbers are in words', () => {
  assert.deepEqual([0, 999, 1000, 999_949, 999_950, 12_345_678, 1.5e9].map(format.bytes), [
    '0 bytes',
    '999 bytes',
    '1.0 kB',
    '999.9 kB',
    '1.0 MB',
    '12.3 MB',
    '1.50 GB',
  ]);
  assert.deepEqual([0.2, 1, 89, 90, 5400, Infinity].map(format.duration), [
    'less than a second',
    '1 second',
    '89 seconds',
    '2 minutes',
    '2 hours',
    'a long time',
  ]);
  assert.deepEqual([12.4, 999.4, 1000, 9949, 12_000].map(format.milliseconds), [
    '12 ms',
    '999 ms',
    '1.0 s',
    '9.9 s',
    '12 s',
  ]);
  assert.deepEqual([7.26, 99.94, 123.4].map(format.rate), ['7.3', '99.9', '123']);
});
