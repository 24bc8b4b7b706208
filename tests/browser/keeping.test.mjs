// What engines keep in Chromium's storage, loaded in a worker and in the page's thread: a download that goes on after
// its tab or the whole browser was killed, tabs that load one model at once, and a storage that is too small.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { bigGguf } from '../support/big_gguf.mjs';
import { launch, launchKept, mounts, openPage, root, startServer } from './harness.mjs';

const MIB = 1 << 20;
const BIG = '/big.gguf';
const SMALL = ['/one.gguf', '/two.gguf', '/three.gguf'];
const PLACES = [['a worker', true], ["the page's thread", false]];
const big = bigGguf({ layers: 2 });

let server, browser;
before(async () => {
  const small = readFileSync(join(root, 'tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf'));
  server = await startServer({ mounts, files: { [BIG]: big, ...Object.fromEntries(SMALL.map((path) => [path, small])) } });
  browser = await launch({ webgpu: false });
});
after(async () => {
  await browser?.close();
  await server?.close();
});
beforeEach(() => {
  for (const path of Object.keys(server.behave)) delete server.behave[path];
  reset();
});
function reset() {
  for (const path of Object.keys(server.sent)) delete server.sent[path];
  server.requests.length = 0;
}

const empty = () => `${server.url}/pages/empty.html`;
/** Loads a model and asks it; `globalThis.loaded` is how many bytes have come. */
const visit = (page, model, options) => page.evaluate(async ({ model, options }) => {
  const { Engine } = await import('/dist/index.js');
  const [notices, from] = [[], new Set()];
  try {
    const engine = await Engine.load({
      model, device: 'cpu', contextLength: 64, ...options,
      onNotice: ({ code }) => notices.push(code),
      onProgress: (progress) => {
        globalThis.loaded = progress.loadedBytes;
        from.add(progress.from);
      },
    });
    const { choices, usage } = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 2 });
    await engine[Symbol.asyncDispose]();
    return { text: choices[0].message.content, tokens: usage.completion_tokens, from: [...from], notices };
  } catch ({ code, what, message }) {
    return { code, what: what ?? message, notices };
  }
}, { model, options });
const stored = (page) => page.evaluate(async () => {
  const { Engine } = await import('/dist/index.js');
  return (await Engine.models.list()).map(({ id, complete }) => `${new URL(id).pathname}${complete ? '' : ' in part'}`).sort();
});
const gets = (path) => server.asked(path).filter(({ method }) => method === 'GET').map(({ range }) => range);

/** A page begins to load the large model, of which the server sends a half; resolves when the page has all of that. */
async function half(page, options) {
  server.behave[BIG] = { stallAfter: big.bytes / 2 };
  visit(page, BIG, options).catch(() => {}); // the tab ends before it answers
  await page.waitForFunction(`globalThis.loaded >= ${big.bytes / 2}`, undefined, { polling: 20 });
  delete server.behave[BIG];
}

/** The next visit goes on: of all bytes that the server has sent, less than 5 % were sent twice. */
async function goesOn(t, page, options) {
  assert.deepEqual(await stored(page), [`${BIG} in part`]);
  const end = await visit(page, BIG, options);
  assert.deepEqual(end.notices, [], JSON.stringify(end));
  assert.equal(end.code, undefined, JSON.stringify(end));
  const again = server.sent[BIG] - big.bytes;
  t.diagnostic(`${again} of ${big.bytes} bytes again`);
  assert.ok(again >= 0 && again < 0.05 * big.bytes, `${again} of ${big.bytes} bytes again`);
  const [first, rest, ...more] = gets(BIG);
  assert.deepEqual([first, more], [null, []]);
  assert.match(rest, /^bytes=[1-9]\d+-$/);
  reset();
  assert.deepEqual(await visit(page, BIG, options), { ...end, from: ['cache'] });
  assert.deepEqual(gets(BIG), []);
}

for (const [place, worker] of PLACES) {
  test(`a download of an engine in ${place} goes on in a new tab when its tab was killed`, async (t) => {
    const { page, context } = await openPage(browser, empty());
    await half(page, { worker });
    const cdp = await context.newCDPSession(page);
    await Promise.race([page.waitForEvent('crash'), cdp.send('Page.crash').catch(() => {})]);
    const next = await context.newPage();
    await next.goto(empty());
    await goesOn(t, next, { worker });
    await context.close();
  });
}

test('a download goes on in a new browser when the whole browser was killed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'rlx-profile-'));
  let kept;
  try {
    kept = await launchKept(folder);
    const page = await kept.context.newPage();
    await page.goto(empty());
    await half(page);
    await kept.kill();
    kept = await launchKept(folder);
    const next = await kept.context.newPage();
    await next.goto(empty());
    await goesOn(t, next);
  } finally {
    await kept?.kill();
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  }
});

test('two tabs load one model at once, in a worker and in the page: it is downloaded once', async () => {
  const { page, context } = await openPage(browser, empty());
  const next = await context.newPage();
  await next.goto(empty());
  server.behave[BIG] = { bytesPerSecond: 48 * MIB };
  const both = await Promise.all([visit(page, BIG, { worker: true }), visit(next, BIG, { worker: false })]);
  for (const { code, what, notices, tokens } of both) assert.deepEqual({ code, what, notices, tokens }, { code: undefined, what: undefined, notices: [], tokens: 2 });
  assert.equal(both[0].text, both[1].text);
  assert.deepEqual(gets(BIG), [null]);
  assert.equal(server.sent[BIG], big.bytes);
  assert.deepEqual(await stored(page), [BIG]);
  await context.close();
});

/** A page with models in its store, loaded in that order, and a quota with room for `models` more bytes than they take. */
async function filled(models, more) {
  const opened = await openPage(browser, empty());
  const { page, context } = opened;
  for (const model of models) assert.deepEqual((await visit(page, model)).notices, []);
  assert.deepEqual(await stored(page), [...models].sort());
  // The browser counts what was written a moment later.
  const usage = () => page.evaluate(async () => (await navigator.storage.estimate()).usage);
  const { bytes } = await page.evaluate(async () => (await import('/dist/index.js')).Engine.models.usage());
  let used = await usage();
  for (let i = 0; i < 100 && used < bytes; i += 1) {
    await page.waitForTimeout(50);
    used = await usage();
  }
  const cdp = await context.newCDPSession(page);
  await cdp.send('Storage.overrideQuotaForOrigin', { origin: server.url, quotaSize: used + more });
  reset();
  return opened;
}

for (const [place, worker] of PLACES) {
  for (const models of [['/one.gguf', '/two.gguf'], ['/two.gguf', '/one.gguf']]) {
    test(`with makeRoom the model that was not used for longest goes, ${models[0]}, for an engine in ${place}`, async () => {
      const { page, context } = await filled(models, MIB);
      const { text, notices } = await visit(page, '/three.gguf', { worker, makeRoom: true });
      assert.ok(text.length > 0);
      assert.deepEqual(notices, []);
      assert.deepEqual(await stored(page), ['/three.gguf', models[1]].sort());
      assert.deepEqual((await visit(page, '/three.gguf', { worker })).from, ['cache']);
      await context.close();
    });
  }

  test(`without makeRoom a model without room is loaded and not kept, and no other goes, for an engine in ${place}`, async () => {
    const { page, context } = await filled(SMALL.slice(0, 2), MIB);
    const { text, notices, from } = await visit(page, '/three.gguf', { worker });
    assert.ok(text.length > 0);
    assert.deepEqual([notices, from], [['cache_full'], ['network']]);
    assert.deepEqual(await stored(page), SMALL.slice(0, 2).sort());
    await context.close();
  });
}

test('makeRoom removes nothing for a model that is larger than all room', async () => {
  const { page, context } = await filled(SMALL.slice(0, 2), MIB);
  const { code, notices, from } = await visit(page, BIG, { makeRoom: true });
  assert.deepEqual([code, notices, from], [undefined, ['cache_full'], ['network']]);
  assert.equal(server.sent[BIG], big.bytes);
  assert.deepEqual(await stored(page), SMALL.slice(0, 2).sort());
  await context.close();
});
