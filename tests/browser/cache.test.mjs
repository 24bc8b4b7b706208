// Shards kept in Chromium's own storage: the file system and, where a page has none, the Cache API.

import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { launch, mounts, openPage, startServer } from './harness.mjs';

const MODEL = '/model.gguf';
const model = Buffer.from(Uint8Array.from({ length: 3_000_000 }, (_, i) => (i * 7 + (i >> 9)) & 255));

let server, browser;
before(async () => {
  server = await startServer({ mounts, files: { [MODEL]: model } });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});
beforeEach(() => {
  delete server.behave[MODEL];
  server.requests.length = 0;
});

/** Reads the shard through the cache as a load does; says from where, what it was, what is kept. */
async function visit(page) {
  return page.evaluate(async (path) => {
    const { openStore } = await import('/dist/store.js');
    const { ShardCache } = await import('/dist/cache.js');
    const notices = [];
    const store = await openStore();
    const cache = new ShardCache(store, ({ code }) => notices.push(code));
    let error = null;
    let sum = 0;
    let bytes = 0;
    let from = null;
    let shard;
    try {
      shard = await cache.reader(new URL(path, location.href).href);
      from = shard.from;
      for (let chunk = await shard.read(); chunk; chunk = await shard.read()) {
        bytes += chunk.byteLength;
        for (const byte of chunk) sum = (sum * 31 + byte) | 0;
      }
    } catch ({ code }) {
      error = code;
    }
    await shard?.close();
    const kept = [...new Set((await store.names()).map((name) => name.split('.').slice(name.endsWith('.part.json') ? -2 : -1).join('.')))].sort();
    return { from, bytes, sum, notices, error, kept };
  }, MODEL);
}

let sum = 0;
for (const byte of model) sum = (Math.imul(sum, 31) + byte) | 0;
const whole = { bytes: model.length, sum, error: null };
const asked = () => server.asked(MODEL).map(({ method }) => method);

for (const kind of ['file system', 'Cache API']) {
  const open = async () => {
    const opened = await openPage(browser, `${server.url}/pages/empty.html`);
    if (kind === 'Cache API') {
      const hide = () => delete StorageManager.prototype.getDirectory;
      await opened.context.addInitScript(hide);
      await opened.page.evaluate(hide);
      assert.equal(await opened.page.evaluate(() => 'getDirectory' in navigator.storage), false);
    }
    return opened;
  };

  test(`${kind}: a second visit makes no shard request but a revalidation`, async () => {
    const { page, context } = await open();
    assert.deepEqual(await visit(page), { ...whole, from: 'network', notices: [], kept: ['bytes', 'json'] });
    assert.deepEqual(asked(), ['GET']);
    server.requests.length = 0;
    await page.reload();
    assert.deepEqual(await visit(page), { ...whole, from: 'cache', notices: [], kept: ['bytes', 'json'] });
    assert.deepEqual(asked(), ['HEAD']);
    await context.close();
  });

  test(`${kind}: Last-Modified alone is enough to know a kept shard again`, async () => {
    const { page, context } = await open();
    const dated = (day) => ({ etag: null, lastModified: `Tue, 0${day} Nov 2026 10:00:00 GMT` });
    server.behave[MODEL] = dated(3);
    await visit(page);
    assert.equal((await visit(page)).from, 'cache');
    server.behave[MODEL] = dated(4);
    assert.equal((await visit(page)).from, 'network');
    assert.deepEqual(asked(), ['GET', 'HEAD', 'HEAD', 'GET']);
    await context.close();
  });

  test(`${kind}: a server that answers 503 is as good as none`, async () => {
    const { page, context } = await open();
    await visit(page);
    server.behave[MODEL] = { status: 503 };
    assert.deepEqual(await visit(page), { ...whole, from: 'cache', notices: ['offline'], kept: ['bytes', 'json'] });
    await context.close();
  });

  test(`${kind}: loads that start at once all keep here, and the next visit finds it`, async () => {
    const { page, context } = await open();
    await page.evaluate(() => import('/dist/cache.js'));
    const visits = await Promise.all([visit(page), visit(page), visit(page)]);
    for (const { from, bytes, sum, error, notices } of visits) {
      assert.deepEqual({ from, bytes, sum, error, notices }, { ...whole, from: 'network', notices: [] });
    }
    const hasFolder = () => page.evaluate(async () => {
      const names = [];
      for await (const name of (await navigator.storage.getDirectory?.())?.keys() ?? []) names.push(name);
      return names.length > 0;
    });
    assert.equal(await hasFolder(), kind === 'file system');
    assert.deepEqual(await page.evaluate(() => caches.keys()), kind === 'file system' ? [] : ['rlx-shards-1']);
    assert.deepEqual(await visit(page), { ...whole, from: 'cache', notices: [], kept: ['bytes', 'json'] });
    await context.close();
  });

  test(`${kind}: offline, the kept copy is used with a notice`, async () => {
    const { page, context } = await open();
    await visit(page);
    await page.evaluate(() => import('/dist/cache.js'));
    await context.setOffline(true);
    assert.deepEqual(await visit(page), { ...whole, from: 'cache', notices: ['offline'], kept: ['bytes', 'json'] });
    await context.close();
  });

  test(`${kind}: a new version is read from the server and replaces the old`, async () => {
    const { page, context } = await open();
    await visit(page);
    server.behave[MODEL] = { etag: '"new"' };
    assert.deepEqual(await visit(page), { ...whole, from: 'network', notices: [], kept: ['bytes', 'json'] });
    assert.equal((await visit(page)).from, 'cache');
    await context.close();
  });

  test(`${kind}: a server that stops half way leaves a part, which is not taken for the file and goes on later`, async () => {
    const { page, context } = await open();
    server.behave[MODEL] = { stopAfter: 1_000_000 };
    const stopped = await visit(page);
    assert.equal(stopped.error, 'io');
    assert.ok(stopped.bytes > 0 && stopped.bytes <= 1_000_000);
    assert.deepEqual(stopped.kept, ['bytes', 'part.json']);
    delete server.behave[MODEL];
    server.requests.length = 0;
    assert.deepEqual(await visit(page), { ...whole, from: 'network', notices: [], kept: ['bytes', 'json'] });
    assert.deepEqual(server.asked(MODEL).map(({ method, range }) => [method, range]), [['HEAD', null], ['GET', `bytes=${stopped.bytes}-`]]);
    await context.close();
  });

  test(`${kind}: a full quota falls back to streaming, with a notice`, async () => {
    const { page, context } = await open();
    const cdp = await context.newCDPSession(page);
    await cdp.send('Storage.overrideQuotaForOrigin', { origin: server.url, quotaSize: 1_000_000 });
    assert.deepEqual(await visit(page), { ...whole, from: 'network', notices: ['cache_full'], kept: [] });
    await context.close();
  });

  test(`${kind}: clearing removes everything`, async () => {
    const { page, context } = await open();
    await visit(page);
    await page.evaluate(async () => (await import('/dist/store.js')).clearStores());
    assert.equal((await visit(page)).from, 'network');
    await context.close();
  });
}

test('with neither, there is no store', async () => {
  const { page, context } = await openPage(browser, `${server.url}/pages/empty.html`);
  const store = await page.evaluate(async () => {
    delete StorageManager.prototype.getDirectory;
    CacheStorage.prototype.open = () => Promise.reject(new DOMException('denied', 'SecurityError'));
    return (await import('/dist/store.js')).openStore();
  });
  assert.equal(store, undefined);
  await context.close();
});
