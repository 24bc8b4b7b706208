// The search's own parts that draw nothing: texts of files, passages of texts, vectors that are near.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { htmlText, isPassedOver, textOf } = await load('search/files.ts');
const { passagesOf, weigh } = await load('search/passages.ts');
const { marked, nearest } = await load('search/score.ts');

const bytes = (text) => new TextEncoder().encode(text);
const texts = (text, ...options) => passagesOf(text, ...options).map(({ start, end }) => text.slice(start, end));
/** So many words of a sentence that ends. */
const sentence = (word, count) => `${Array(count).fill(word).join(' ')}.`;

test('passages are whole paragraphs where these fit', () => {
  const text = `${sentence('one', 9)}\n\n${sentence('two', 9)}\n\n${sentence('three', 9)}\n\n${sentence('four', 9)}\n`;
  assert.deepEqual(texts(text, 25), [text.slice(0, 74), text.slice(76).trim()]);
  const [first, second] = passagesOf(text, 25);
  assert.deepEqual([first.line, second.line], [1, 5]);
});

test('a long paragraph is cut behind a sentence, which the next passage begins with', () => {
  const sentences = Array.from({ length: 12 }, (_, i) => sentence(`word${i}`, 6));
  const found = texts(sentences.join(' '), 60);
  assert.ok(found.length > 1);
  for (const [i, passage] of found.entries()) {
    assert.ok(weigh(passage) <= 60 && passage.endsWith('.'), passage);
    const next = found[i + 1];
    if (next) assert.ok(passage.endsWith(next.slice(0, next.indexOf('.') + 1)), `${passage} | ${next}`);
  }
  assert.ok(
    sentences.every((each) => found.some((passage) => passage.includes(each))),
    'nothing is lost',
  );
});

test('a section begins a passage, whose place is its heading; in other texts # is no heading', () => {
  const text = `# Title\n\n${sentence('intro', 30)}\n\n## Second part ##\n\n${sentence('more', 30)}\n\nlast\n`;
  const found = passagesOf(text, 100, true);
  assert.deepEqual(
    found.map(({ heading, line }) => [heading, line]),
    [
      ['Title', 1],
      ['Second part', 5],
    ],
  );
  assert.deepEqual(
    passagesOf(text, 100).map(({ heading }) => heading),
    [''],
  );
});

test('a text of any kind is split whole, in a moment, into passages that a model reads', () => {
  const kinds = {
    'one line of words': 'word '.repeat(200_000),
    'one word': 'x'.repeat(1_000_000),
    'no spaces': '漢字'.repeat(300_000),
    faces: '😀'.repeat(200_000),
    spaces: ' '.repeat(1_000_000),
    'empty lines': '\n'.repeat(1_000_000),
    headings: '# \n'.repeat(300_000) + '# a\n'.repeat(10_000),
    points: '.'.repeat(1_000_000),
    'points and spaces': '. '.repeat(500_000),
    code: 'fn f(x: &mut Vec<u8>) -> Option<usize> { x.pop().map(|b| b as usize) }\n'.repeat(10_000),
    tabs: 'a\t'.repeat(400_000),
  };
  for (const [name, text] of Object.entries(kinds)) {
    const begun = performance.now();
    const found = passagesOf(text, 200, true);
    const ms = performance.now() - begun;
    assert.ok(ms < 3000, `${name}: ${ms} ms`);
    let covered = 0;
    for (const { start, end } of found) {
      assert.ok(start < end && end <= text.length, name);
      assert.ok(!/[\p{L}\p{N}]/u.test(text.slice(covered, start)), `${name}: words are lost`);
      assert.ok(weigh(text.slice(start, end)) <= 200, `${name}: ${weigh(text.slice(start, end))}`);
      assert.ok(!/^[\udc00-\udfff]|[\ud800-\udbff]$/.test(text.slice(start, end)), `${name}: half a character`);
      covered = end;
    }
    assert.ok(!/[\p{L}\p{N}]/u.test(text.slice(covered)), `${name}: the end is lost`);
  }
});

test('a file is text if it is UTF-8 without control characters, whatever its name is', () => {
  const { text, kind } = textOf('notes/a.MD', bytes('\ufeff# A\r\nb\rc'));
  assert.deepEqual([text, kind], ['# A\nb\nc', 'markdown']);
  assert.equal(textOf('colours.log', bytes('\x1b[31mred\x1b[0m')).kind, 'text');
  assert.equal(textOf('a.txt', new Uint8Array([0x50, 0x4b, 3, 4, 0x41])), 'is not text');
  assert.equal(textOf('a.txt', new Uint8Array([0x89, 0x50, 0x4e, 0x47])), 'is not text in UTF-8');
  assert.equal(textOf('a.txt', new Uint8Array([0xff, 0xfe, 0x41, 0])), 'is not text in UTF-8');
  assert.equal(textOf('a.txt', bytes('a\0b')), 'is not text');
  assert.equal(textOf('a.txt', bytes(' \n--\n')), 'has no words');
  assert.equal(textOf('a.html', bytes('<script>x</script>')), 'has no words');
});

test('hidden folders and packages inside of what was chosen are passed over, and not what was chosen itself', () => {
  const over = ['a/.git/config', 'a/.env', 'a/b/node_modules/c/d.js', 'a/__MACOSX/x'];
  const taken = ['.env', '.notes/a.md', 'a/b.md', 'a/node_modules.md', 'node_modules/a.js'];
  assert.deepEqual(
    over.map(isPassedOver),
    over.map(() => true),
  );
  assert.deepEqual(
    taken.map(isPassedOver),
    taken.map(() => false),
  );
});

test('of HTML there is what it shows', () => {
  const html = `<!DOCTYPE html><html><head><title>T &amp; U</title><style>p { color: red }</style></head>
<body><h2 class="x">Head</h2><p>One
  two <b>three</b>.<!-- a > comment --><SCRIPT>alert('<p>no')</SCRIPT><p>1 < 2 &lt;b&gt;<ul><li>a<li>b</ul>
<pre>x
  y</pre><table><tr><td>1<td>2</tr></table>`;
  assert.equal(htmlText(html), 'T & U\n\n## Head\n\nOne two three.\n\n1 < 2 <b>\n\n- a\n- b\n\nx\n  y\n\n\t1\t2');
});

test('HTML that is made to be slow is read in a moment', () => {
  for (const piece of [
    '<',
    '<!--',
    '<script>',
    '<a ',
    '<p>',
    '</',
    '&',
    '<pre>',
    '<style',
    '&#',
    'İ<script>x</script>',
    ' ',
  ]) {
    const begun = performance.now();
    assert.equal(typeof htmlText(piece.repeat(Math.floor(1_000_000 / piece.length))), 'string');
    const ms = performance.now() - begun;
    assert.ok(ms < 3000, `${piece}: ${ms} ms`);
  }
});

test('the nearest vectors come first, equal ones in their order, and what is no number never', () => {
  const rows = [
    [1, 0, 0, 0, 0],
    [0.6, 0.8, 0, 0, 0],
    [NaN, 0, 0, 0, 0],
    [0, 1, 0, 0, 0],
    [0.6, 0, 0, 0, 0.8],
    [1, 0, 0, 0, 0],
  ];
  const vectors = Float32Array.from(rows.flat());
  const query = Float32Array.from([1, 0, 0, 0, 0]);
  const at = (count, most) => nearest(vectors, count, query, most).map(({ at }) => at);
  assert.deepEqual(at(6, 10), [0, 5, 1, 4, 3]);
  assert.deepEqual(at(6, 3), [0, 5, 1]);
  assert.deepEqual(at(2, 10), [0, 1], 'what has no vector yet is not looked at');
  assert.deepEqual(at(0, 10), []);
  assert.ok(Math.abs(nearest(vectors, 6, query, 3)[2].score - 0.6) < 1e-6);
});

test('the nearest of random vectors are those of a plain sort', () => {
  const [count, width] = [500, 63];
  const vectors = Float32Array.from({ length: count * width }, () => Math.random() - 0.5);
  const query = Float32Array.from({ length: width }, () => Math.random() - 0.5);
  const scores = Array.from({ length: count }, (_, at) =>
    query.reduce((sum, x, i) => sum + x * vectors[at * width + i], 0),
  );
  const plain = [...scores.keys()].sort((a, b) => scores[b] - scores[a]).slice(0, 20);
  assert.deepEqual(
    nearest(vectors, count, query, 20).map(({ at }) => at),
    plain,
  );
});

test('words of the question are marked, as they begin, but for common ones', () => {
  const shown = (text, query) =>
    marked(text, query)
      .map(({ text, marked }) => (marked ? `[${text}]` : text))
      .join('');
  assert.equal(
    shown('The borrow checker: borrows, reborrow.', 'how does the Borrow work?'),
    'The [borrow] checker: [borrows], reborrow.',
  );
  assert.equal(shown('a.b(c) $x', '.*( $x'), 'a.b(c) $[x]');
  assert.equal(shown('Über Größe', 'GRÖSSE größe'), 'Über [Größe]');
  assert.deepEqual(marked('text', 'what is it'), [{ text: 'text', marked: false }]);
  assert.deepEqual(marked('', 'x'), []);
});
