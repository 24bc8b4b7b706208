// The demo's search in one's own files: what is found is what the package's vectors say, what was read is not read
// again, and nothing leaves the page.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { load } from '../www/load.mjs';
import { faults, SMALL, startDemo } from './demo_pages.mjs';
import { root } from './harness.mjs';

const MODEL = 'fixtures/bert/bert.gguf';
const QUESTION = 'What does the borrow checker of the compiler do?';
const words = ['borrow', 'checker', 'macro', 'function', 'string', 'vector', 'trait', 'lifetime', 'owner', 'value'];
/** A text with so many paragraphs, each another one. */
const paragraphs = (count, seed) =>
  Array.from({ length: count }, (_, i) =>
    Array.from({ length: 24 }, (_, j) => words[(i * 7 + j * (seed + i) + seed) % words.length]).join(' '),
  ).join('.\n\n');
const FILES = {
  'notes/checker.md': `# The borrow checker\n\n${paragraphs(9, 1)}.\n\n## Of macros\n\n${paragraphs(5, 2)}.\n`,
  'notes/deep/strings.txt': `What a string is.\n\n${paragraphs(24, 3)}.\n`,
  'notes/page.html':
    '<title>Vectors</title><script>alert(1)</script><p>A <b>vector</b> has &lt;values&gt;.<img src="https://example.com/x.png">',
};
const PASSED_OVER = ['notes/.git/config', 'notes/node_modules/x/index.js'];

let demo, page, logs, folder;
const elsewhere = [];
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rlx-search-'));
  for (const [name, text] of Object.entries({
    ...FILES,
    ...Object.fromEntries(PASSED_OVER.map((name) => [name, 'words'])),
  })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  writeFileSync(join(folder, 'notes/photo.txt'), Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1, 2]));
  demo = await startDemo();
  ({ page, logs } = await demo.open(`${SMALL}#search`, { viewport: { width: 1280, height: 900 } }));
  page.context().on('request', (request) => {
    if (!request.url().startsWith(demo.server.url) && !/^(blob|data):/.test(request.url()))
      elsewhere.push(request.url());
  });
  // How many texts were given to the model.
  await page.addInitScript(() => {
    globalThis.embedded = 0;
    const { postMessage } = Worker.prototype;
    Worker.prototype.postMessage = function (message, ...more) {
      globalThis.embedded += message?.embed?.length ?? 0;
      return postMessage.call(this, message, ...more);
    };
  });
  await page.reload();
});
after(async () => {
  await demo?.close();
  rmSync(folder, { recursive: true, force: true });
});

const embedded = () => page.evaluate(() => globalThis.embedded);
async function loadModel(address) {
  if (!(await page.locator('#model-address').isVisible())) await page.locator('.need summary').first().click();
  await page.locator('#model-address').fill(address);
  await page.locator('#model-address').press('Enter');
}
/** Chooses files and waits until all are read; answers with how many texts that took. */
async function choose(id, files) {
  return reads(() => page.locator(id).setInputFiles(files));
}
async function reads(give) {
  const before = await embedded();
  await page.evaluate(() => {
    globalThis.began = new Promise((resolve) => {
      const look = () => /^Reading/.test(document.getElementById('search-chosen')?.textContent) && resolve();
      new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
    });
  });
  await give();
  await page.evaluate(() => globalThis.began);
  await page.waitForFunction(() =>
    [...document.querySelectorAll('[role=status]')].some(
      ({ textContent }) => textContent === 'All passages can be searched',
    ),
  );
  return (await embedded()) - before;
}
const chosen = () => page.locator('#search-chosen').textContent();
const buffers = (texts) =>
  Object.entries(texts).map(([name, text]) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) }));
async function found(question) {
  await page.locator('#search-query').fill(question);
  await page.waitForFunction(() => document.querySelector('#search-results[aria-busy=false] .result'));
  return page.evaluate(() =>
    [...document.querySelectorAll('.result')].map((each) => ({
      path: each.querySelector('.path').textContent,
      place: each.querySelector('small').textContent,
      score: Number(/[-\d.]+$/.exec(each.querySelector('.score').textContent)[0]),
      text: each.querySelector('p').textContent,
    })),
  );
}

test('nothing is fetched before a button is pressed, and a model that makes no vectors is refused with a way out', async () => {
  await page.locator('#search-fetch').waitFor();
  assert.match(await page.locator('#search-fetch').textContent(), /about 91 MB/);
  await page.locator('#search-chosen').waitFor();
  assert.deepEqual(demo.server.asked('bert.gguf'), []);
  await loadModel('fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf');
  await page.locator('#search-model-error').waitFor();
  assert.match(await page.locator('#search-model-error').textContent(), /Choose an encoder/);
  await loadModel(MODEL);
  await page.locator('#search-ready').waitFor();
  assert.match(await page.locator('#search-ready').textContent(), /^bert makes 64 numbers of each passage, on the CPU/);
});

test('a folder is read, and what is no text is named', async () => {
  const count = await choose('#search-folder', join(folder, 'notes'));
  assert.ok(count > 10, `${count} texts`);
  assert.equal(await chosen(), `3 files, ${count} passages`);
  assert.equal(await page.locator('#search-refused li').textContent(), '“notes/photo.txt” is not text in UTF-8.');
  assert.match(await page.locator('.need').nth(1).textContent(), /Passed over: 2 files/);
});

test('what is found is what vectors of the package say', async () => {
  const { Embedder } = await import('../../crates/rlx-wasm/js/dist/index.js');
  const { passagesOf } = await load('search/passages.ts');
  const { textOf } = await load('search/files.ts');
  const embedder = await Embedder.load({ model: join(root, 'tests', MODEL), device: 'cpu', normalise: true });
  const limit = Math.min(200, Math.floor(embedder.maxTokens * 0.8));
  const passages = Object.entries(FILES).flatMap(([path, content]) => {
    const { text, kind } = textOf(path, new TextEncoder().encode(content));
    return passagesOf(text, limit, kind !== 'text').map(({ start, end }) => ({ path, text: text.slice(start, end) }));
  });
  const [query, ...vectors] = await embedder.embed([QUESTION, ...passages.map(({ text }) => text)]);
  embedder.dispose();
  const scores = vectors.map((vector) => vector.reduce((sum, x, i) => sum + x * query[i], 0));
  const best = [...scores].sort((a, b) => b - a).slice(0, 10);
  const results = await found(QUESTION);
  assert.equal(results.length, 10);
  const flat = (text) => text.replace(/\s+/g, ' ').replace(/ …$/, '');
  results.forEach(({ path, score, text }, i) => {
    assert.ok(Math.abs(score - best[i]) <= 0.006, `${i}: ${score} for ${best[i]}`);
    const of = passages.findIndex((each) => each.path === path && flat(each.text).startsWith(flat(text)));
    assert.ok(of >= 0 && Math.abs(scores[of] - best[i]) <= 1e-4, `${i}: ${path}`);
  });
  const shown = await found('Vectors with <values>');
  const html = shown.find(({ path }) => path === 'notes/page.html');
  assert.equal(flat(html.text), 'Vectors A vector has <values>.');
  assert.ok((await page.locator('.result mark').allTextContents()).some((word) => /^vector/i.test(word)));
});

test('arrows go through the passages, Enter opens one in its file, Escape goes back', async () => {
  await page.locator('#search-query').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.locator('#search-query').getAttribute('aria-activedescendant'), 'result-1');
  assert.equal(await page.locator('.result[aria-selected=true]').count(), 1);
  const path = await page.locator('#result-1 .path').textContent();
  await page.keyboard.press('Enter');
  await page.locator('dialog mark').waitFor();
  assert.equal(await page.locator('dialog h2').textContent(), path);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !document.querySelector('dialog') && document.activeElement?.id === 'search-query');
});

test('a later visit reads nothing again but what has changed', async () => {
  await page.reload();
  await loadModel(MODEL);
  await page.locator('#search-ready').waitFor();
  assert.equal(await choose('#search-folder', join(folder, 'notes')), 0);
  assert.ok((await found(QUESTION)).length === 10);
  writeFileSync(join(folder, 'notes/deep/strings.txt'), 'A single passage.\n');
  assert.equal(await choose('#search-folder', join(folder, 'notes')), 1);
  assert.match((await found('a single passage'))[0].text, /A single passage/);
});

test('reading is stopped and goes on, and what was made of files is forgotten', async () => {
  const many = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`${i}.txt`, paragraphs(600, i + 5)]));
  await page.locator('#search-file').setInputFiles(buffers(many));
  await page.waitForFunction(() => /[1-9]\d* of/.test(document.getElementById('search-indexing')?.textContent ?? ''));
  await page.locator('#search-stop').click();
  const [, done, all] = /Stopped: ([\d,]+) of ([\d,]+) passages/.exec(
    await page.locator('#search-stopped').textContent(),
  );
  const number = (text) => Number(text.replaceAll(',', ''));
  assert.ok(number(done) > 0 && number(done) < number(all), `${done} of ${all}`);
  assert.ok((await found(QUESTION)).length > 0, 'what was read is searched');
  await page.locator('#search-go-on').click();
  await page.locator('#search-indexing').waitFor();
  await page.locator('#search-stop').click();
  const some = { 'a.txt': 'A first text.', 'b.txt': 'A second text.' };
  assert.equal(await choose('#search-file', buffers(some)), 2);
  assert.equal(await choose('#search-file', buffers({ ...some, 'c.txt': 'A third.' })), 1);
  await page.locator('#search-forget').click();
  await page.locator('#search-forget').waitFor({ state: 'detached' });
  assert.equal(await choose('#search-file', buffers(some)), 2);
});

test('what is dropped is searched', async () => {
  const drop = () =>
    page.evaluate(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['A text that was dropped.'], 'dropped.txt'));
      dataTransfer.items.add(new File(['A second text.'], 'b.txt'));
      for (const type of ['dragover', 'drop'])
        document
          .querySelector('main')
          .dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
    });
  assert.equal(await reads(drop), 1, 'and what is known of the other is kept');
  assert.equal((await found('a text that was dropped'))[0].path, 'dropped.txt');
});

test("passages go to the chat; all came from the page's own server", async () => {
  await found('second text');
  await page.locator('#search-chat').click();
  await page.locator('#attached li').first().waitFor();
  assert.match(await page.locator('#attached').textContent(), /b\.txt, line 1/);
  assert.equal(await page.locator('#drop').count(), 0, 'nothing is being dragged');
  assert.deepEqual(elsewhere, []);
  assert.deepEqual(faults(logs), []);
});
