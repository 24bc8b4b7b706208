// Downloads in Chromium's own network and storage: a tab that is killed, tabs that load one file at once, servers
// that fail, fall silent, send elsewhere or send a page, and files that are not what they must be.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const MIB = 1 << 20;
const BIG = '/big.bin';
const SHARDS = [1, 2, 3].map((n) => `rustdoc-29m-q4_k_m-0000${n}-of-00003.gguf`);
const ANSWER = /^`Vec::push` appends/;
const big = Buffer.alloc(48 * MIB);
for (let i = 0; i < big.length; i += 4) big.writeUInt32LE(Math.imul(i, 2654435761) >>> 0, i);
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');
const folder = join(root, 'models/rustdoc-29m');

let server, other, browser, page, context, logs;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/models/': folder }, files: { [BIG]: big } });
  other = await startServer({ mounts: { '/models/': folder }, files: { [BIG]: big } });
  browser = await launch({ webgpu: false });
});
after(async () => {
  await browser?.close();
  await server?.close();
  await other?.close();
});
beforeEach(async () => {
  for (const { behave, requests, sent } of [server, other]) {
    for (const path of Object.keys(behave)) delete behave[path];
    for (const path of Object.keys(sent)) delete sent[path];
    requests.length = 0;
  }
  ({ page, context, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
});
afterEach(async () => {
  await context.close();
  assert.deepEqual(logs.filter((line) => line.startsWith('uncaught')), []);
});

/** Reads a file through the cache as a load does; `globalThis.position` is how far it is. */
function visit(page, path = BIG, patience = {}) {
  return page.evaluate(async ({ path, patience }) => {
    const { openStore } = await import('/dist/store.js');
    const { ShardCache } = await import('/dist/cache.js');
    const { Sha256 } = await import('/dist/sha256.js');
    const { PATIENCE } = await import('/dist/retry.js');
    const notices = [];
    const cache = new ShardCache(await openStore(), ({ code }) => notices.push(code), undefined, { patience: { ...PATIENCE, ...patience } });
    const hash = new Sha256();
    let shard;
    try {
      shard = await cache.reader(new URL(path, location.href).href);
      for (let chunk = await shard.read(); chunk; chunk = await shard.read()) {
        hash.update(chunk);
        globalThis.position = shard.position;
      }
      return { from: shard.from, hash: hash.hex(), notices };
    } catch ({ code, what }) {
      return { code, what, notices };
    } finally {
      await shard?.close();
    }
  }, { path, patience });
}

const right = { from: 'network', hash: sha256(big), notices: [] };
const asked = (from = server) => from.asked(BIG).map(({ method, range }) => [method, range].filter(Boolean).join(' '));

/** Loads a model, and answers with it. */
const attempt = (page, model, options) => page.evaluate(async ({ model, options }) => {
  const { Engine } = await import('/dist/index.js');
  const progress = [];
  const notices = [];
  try {
    const engine = await Engine.load({ model, device: 'cpu', onProgress: (p) => progress.push(p), onNotice: ({ code }) => notices.push(code), ...options });
    const messages = [{ role: 'user', content: 'What does Vec::push do?' }];
    const answer = await engine.chat.completions.create({ messages, temperature: 0, max_tokens: 8 });
    engine.dispose();
    return { text: answer.choices[0].message.content, progress, notices };
  } catch ({ code, what, at }) {
    return { error: { code, what, at }, notices };
  }
}, { model, options });
const urls = SHARDS.map((name) => `/models/${name}`);

test('of what a killed tab had, less than 5 % is downloaded again', async (t) => {
  server.behave[BIG] = { bytesPerSecond: 16 * MIB };
  visit(page).catch(() => {}); // the tab ends before it answers
  await page.waitForFunction(`globalThis.position > ${32 * MIB}`);
  const before = await page.evaluate(() => globalThis.position);
  const cdp = await context.newCDPSession(page);
  await Promise.race([page.waitForEvent('crash'), cdp.send('Page.crash').catch(() => {})]);
  server.requests.length = 0;
  delete server.behave[BIG];
  const next = await context.newPage();
  await next.goto(`${server.url}/pages/empty.html`);
  assert.deepEqual(await visit(next), right);
  const [head, get, ...more] = asked();
  assert.deepEqual([head, more], ['HEAD', []]);
  const again = before - Number(/bytes=(\d+)-/.exec(get)[1]);
  t.diagnostic(`${again} of ${big.length} bytes again, after ${before}`);
  assert.ok(again <= 0.05 * big.length, `${again} bytes again`);
  server.requests.length = 0;
  assert.deepEqual(await visit(next), { ...right, from: 'cache' });
  assert.deepEqual(asked(), ['HEAD']);
});

test('a load that ends after the last byte and before the record leaves a file that the next load completes', async () => {
  const left = await page.evaluate(async (url) => {
    const { openStore } = await import('/dist/store.js');
    const { ShardCache } = await import('/dist/cache.js');
    const shard = await new ShardCache(await openStore()).reader(url);
    await shard.open();
    while (shard.position < shard.bytes) await shard.read();
    await shard.close();
    return (await (await import('/dist/index.js')).Engine.models.list()).map(({ bytes, complete }) => ({ bytes, complete }));
  }, `${server.url}${BIG}`);
  assert.deepEqual(left, [{ bytes: big.length, complete: false }]);
  server.requests.length = 0;
  assert.deepEqual(await visit(page), right);
  assert.deepEqual(asked(), ['HEAD']);
  const now = await page.evaluate(async () => (await (await import('/dist/index.js')).Engine.models.list()).map(({ complete }) => complete));
  assert.deepEqual(now, [true]);
  assert.deepEqual(await visit(page), { ...right, from: 'cache' });
});

test('two tabs load one file at once: it is downloaded once', async () => {
  // So slow that the second tab is there before the first has all, on a busy machine too.
  server.behave[BIG] = { bytesPerSecond: 12 * MIB };
  const next = await context.newPage();
  await next.goto(`${server.url}/pages/empty.html`);
  const first = visit(page);
  await page.waitForFunction('globalThis.position > 0');
  assert.deepEqual(await Promise.all([first, visit(next)]), [right, right]);
  assert.deepEqual(asked().filter((line) => line.startsWith('GET')), ['GET']);
});

test('a tab that waits for another one goes on when that is killed', async () => {
  // The first tab's connection falls silent on its way: it is not done when it is killed, however slow this machine is.
  server.behave[BIG] = { stallAfter: 20 * MIB, stalls: 1 };
  const next = await context.newPage();
  await next.goto(`${server.url}/pages/empty.html`);
  visit(page).catch(() => {});
  await page.waitForFunction(`globalThis.position > ${8 * MIB}`);
  const second = visit(next);
  await next.waitForFunction(`globalThis.position > ${4 * MIB}`);
  const cdp = await context.newCDPSession(page);
  await Promise.race([page.waitForEvent('crash'), cdp.send('Page.crash').catch(() => {})]);
  delete server.behave[BIG];
  assert.deepEqual(await second, right);
  const gets = asked().filter((line) => line.startsWith('GET'));
  assert.equal(gets.length, 2, gets.join());
  assert.match(gets[1], /^GET bytes=[1-9]\d+-$/);
});

test('two loads of one model in a page: both answer, and each shard is downloaded once', async () => {
  const both = await Promise.all([attempt(page, urls), attempt(page, [...urls].reverse())]);
  for (const { text, error } of both) assert.match(text ?? '', ANSWER, JSON.stringify(error));
  for (const name of SHARDS) {
    // A shard whose connection was given back while the others' headers came is asked for its rest.
    const gets = server.asked(name).filter(({ method }) => method === 'GET').map(({ range }) => range);
    assert.equal(gets.filter((range) => range === null).length, 1, `${name}: ${gets}`);
  }
});

test('503, then the file; Retry-After is obeyed', async () => {
  for (const path of urls) server.behave[path] = { fails: 1, retryAfter: 1 };
  const { text, error, progress } = await attempt(page, urls);
  assert.match(text ?? '', ANSWER, JSON.stringify(error));
  const weights = progress.filter(({ phase }) => phase === 'weights');
  const of = (name) => weights.filter(({ file }) => file.name === `${server.url}/models/${name}`);
  for (const name of SHARDS) assert.ok(of(name).every(({ file }) => file.loadedBytes <= file.totalBytes), name);
  assert.ok(weights.some(({ bytesPerSecond }) => bytesPerSecond > 0));
});

test('a server that falls silent is asked for the rest', async () => {
  server.behave[BIG] = { stallAfter: 20 * MIB, stalls: 1 };
  assert.deepEqual(await visit(page, BIG, { stallMs: 1000 }), right);
  assert.match(asked()[1], /^GET bytes=20\d+-$/);
  assert.equal(asked().length, 2);
});

test('a connection that breaks is followed by one for the rest', async () => {
  server.behave[BIG] = { stopAfter: 20 * MIB };
  const read = visit(page, BIG, { pauseMs: 2000 });
  await page.waitForFunction(`globalThis.position >= ${20 * MIB}`);
  delete server.behave[BIG];
  assert.deepEqual(await read, right);
  // What the browser had not given to the page when the connection broke is asked for again.
  const [first, ...rests] = asked();
  assert.equal(first, 'GET');
  assert.ok(rests.length > 0 && rests.every((line) => /^GET bytes=[1-9]\d+-$/.test(line)), rests.join());
});

test('a server that does not come back is told with the number of tries', async () => {
  server.behave[BIG] = { status: 502 };
  assert.deepEqual(await visit(page, BIG, { pauseMs: 5 }), { code: 'io', what: 'the server answered 502 Bad Gateway, in 5 tries', notices: [] });
});

test('a wrong hash is bad_file and leaves nothing; the right one is kept and listed', async () => {
  const [path] = urls;
  const hash = sha256(readFileSync(join(folder, SHARDS[0])));
  const wrong = { [SHARDS[0]]: sha256('another file') };
  const { error } = await attempt(page, urls, { integrity: wrong });
  assert.deepEqual(error, { code: 'bad_file', what: `the file's SHA-256 is ${hash}, it must be ${wrong[SHARDS[0]]}`, at: `${server.url}${path}` });
  const list = () => page.evaluate(async () => {
    const { Engine } = await import('/dist/index.js');
    return { models: await Engine.models.list(), usage: await Engine.models.usage() };
  });
  const kept = (await list()).models.flatMap(({ files }) => files.map(({ url }) => url));
  assert.ok(!kept.includes(`${server.url}${path}`), kept.join());
  const base64 = Buffer.from(hash, 'hex').toString('base64');
  assert.match((await attempt(page, urls, { integrity: { [SHARDS[0]]: `sha256-${base64}` } })).text ?? '', ANSWER);
  const { models: [model], usage } = await list();
  assert.equal(model.id, `${server.url}/models/rustdoc-29m-q4_k_m.gguf`);
  assert.equal(model.complete, true);
  assert.deepEqual(model.files.map(({ sha256 }) => sha256).filter(Boolean), [hash]);
  assert.equal(usage.bytes, model.bytes);
  // The browser counts what was written a moment later.
  let counted = usage;
  for (let i = 0; i < 100 && counted.originBytes < usage.bytes; i++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    counted = (await list()).usage;
  }
  assert.ok(counted.originBytes >= usage.bytes && counted.quotaBytes > counted.originBytes, JSON.stringify(counted));
  assert.equal(await page.evaluate(async (id) => (await import('/dist/index.js')).Engine.models.delete(id), model.id), true);
  assert.deepEqual((await list()).models, []);
  const unmet = await attempt(page, urls, { integrity: { 'other.gguf': hash } });
  assert.deepEqual(unmet.error, { code: 'usage', what: 'integrity names other.gguf, and the model has no such file', at: 'integrity' });
});

test('a page in place of a file is an error, and replaces no good copy', async () => {
  assert.match((await attempt(page, urls)).text ?? '', ANSWER);
  for (const path of urls) server.behave[path] = { type: 'text/html', etag: '"login"' };
  const { text, notices } = await attempt(page, urls);
  assert.match(text ?? '', ANSWER);
  assert.deepEqual(notices, ['offline']);
  server.behave[BIG] = { type: 'text/html' };
  assert.equal((await visit(page)).what, 'the address gives a page (HTML) and not a file');
});

for (const [name, exposed, ranges] of [
  ['the same origin', undefined, true],
  ['another origin that shows ETag and Content-Range, as the Hub does', ['ETag', 'Content-Range'], true],
  ['another origin that shows nothing', [], false],
]) {
  test(`a redirect to ${name} is followed, also for the rest`, async () => {
    const at = '/moved.bin';
    const to = exposed ? other : server;
    server.behave[at] = { redirect: `${exposed ? other.url : ''}${BIG}` };
    to.behave[BIG] = { exposed, stopAfter: 20 * MIB, ...(ranges ? {} : { lastModified: 'Tue, 03 Nov 2026 10:00:00 GMT', etag: null }) };
    const read = visit(page, at, { pauseMs: 2000 });
    await page.waitForFunction(`globalThis.position >= ${20 * MIB}`);
    delete to.behave[BIG].stopAfter;
    assert.deepEqual(await read, right);
    const rests = asked(to).slice(1);
    assert.ok(rests.length > 0 && rests.every((line) => (ranges ? /^GET bytes=[1-9]\d+-$/ : /^GET$/).test(line)), rests.join());
    assert.deepEqual(await visit(page, at), { ...right, from: 'cache' });
  });
}

test('clearing while a load writes says what was left, and the next load is whole', async () => {
  server.behave[BIG] = { bytesPerSecond: 16 * MIB };
  const read = visit(page);
  await page.waitForFunction(`globalThis.position > ${8 * MIB}`);
  const outcome = await page.evaluate(async () => {
    const { Engine } = await import('/dist/index.js');
    return Engine.clearCache().then(() => 'cleared', ({ code, what }) => ({ code, what }));
  });
  if (outcome !== 'cleared') assert.match(`${outcome.code}: ${outcome.what}`, /^io: \d stored files are in use and were not removed$/);
  assert.equal((await read).hash, right.hash);
  delete server.behave[BIG];
  assert.equal((await visit(page)).hash, right.hash);
});
