// How the demo reads Markdown, piece by piece.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { lex } = await load('chat/markdown/lex.ts');
const { safeAddress } = await load('chat/markdown/link.ts');

const TEXT = [
  '# Title',
  'A paragraph\nof two lines with *emphasis* and `code`.',
  '- one\n- two\n\n  still two\n- three',
  'After the list.',
  '```rust\nlet x = 1;\n\n\nlet y;\n```',
  '| a | b |\n|---|---|\n| 1 | 2 |',
  '> quote\n> goes on\n\n> another',
  'Setext\n---',
  '    indented\n\n    code',
  '1. one\n2. two',
  '$$\na_1\n$$',
  '<div>\nraw\n</div>',
  'End',
].join('\n\n');
const shape = ({ blocks }) => blocks.map(({ raw, token }) => `${token?.type}: ${raw}`);

test('a text that comes piece by piece has the blocks of the whole', () => {
  assert.ok(
    lex(TEXT).blocks.every(({ token }) => token),
    'it is read, and not shown as it is',
  );
  for (const step of [1, 3, 17]) {
    let before;
    for (let end = 0; end <= TEXT.length; end += step) {
      before = lex(TEXT.slice(0, end), before);
      assert.deepEqual(shape(before), shape(lex(TEXT.slice(0, end))), `after ${end} characters`);
    }
  }
});

test('blocks that are complete are kept as they are', () => {
  const before = lex(`${TEXT}\n\nA last one`);
  const after = lex(`${TEXT}\n\nA last one that goes on`, before);
  assert.ok(before.blocks.slice(0, -1).every((block, i) => block === after.blocks[i]));
  assert.equal(after.blocks.at(-1).raw, 'A last one that goes on');
});

test('another text is read anew', () => {
  assert.deepEqual(shape(lex('# Other', lex(TEXT))), shape(lex('# Other')));
  assert.deepEqual(shape(lex('a\r\nb')), ['paragraph: a\nb']);
});

test('all of a text is in its blocks, also where it is too long or too deep to read', () => {
  for (const text of [
    TEXT,
    'x'.repeat(400_000),
    '> '.repeat(10_000),
    `${'word '.repeat(50_000)}\n\n# After`,
    '*'.repeat(9000),
    `${'a\n\n'.repeat(30_000)}`,
  ]) {
    assert.equal(
      lex(text)
        .blocks.map(({ raw }) => raw)
        .join(''),
      text,
    );
    let before;
    for (let end = 0; end < text.length; end += 37_000) before = lex(text.slice(0, end), before);
    assert.equal(
      lex(text, before)
        .blocks.map(({ raw }) => raw)
        .join(''),
      text,
    );
  }
});

test('formulas are tokens of their own, and prices are not', () => {
  const types = (text) => lex(text).blocks[0].token.tokens.map(({ type, raw }) => `${type}: ${raw}`);
  assert.deepEqual(types('See $a_1 * b_2$ now'), ['text: See ', 'formula: $a_1 * b_2$', 'text:  now']);
  assert.ok(!types('It cost $5 and $6').some((each) => each.startsWith('formula')));
  assert.equal(lex('$$\na * b * c\n$$\n').blocks[0].token.type, 'formulaBlock');
});

test('only whole addresses of the web and of mail are followed', () => {
  for (const [href, expected] of [
    ['https://example.com/a b', 'https://example.com/a%20b'],
    ['HTTP://EXAMPLE.com', 'http://example.com/'],
    ['mailto:a@b.c', 'mailto:a@b.c'],
    ['javascript:alert(1)', undefined],
    [' javascript:alert(1)', undefined],
    ['java\nscript:alert(1)', undefined],
    ['data:text/html,x', undefined],
    ['/path', undefined],
    ['//example.com', undefined],
    ['vbscript:x', undefined],
    ['blob:https://example.com/x', undefined],
    ['', undefined],
  ])
    assert.equal(safeAddress(href), expected, href);
});
