// A model in eight shards from servers of every kind: the shards beyond the fourth are reopened
// after their headers, and a server may know no version, no range, or hide both from other origins.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { launch, mounts, openPage, rlxBinary, root, startServer } from './harness.mjs';

const SHARDS = 8;
const ANSWER = /^`Vec::push` appends/;
const TUESDAY = 'Tue, 03 Nov 2026 10:00:00 GMT';

const files = {};
let server, other, browser, page, logs, folder, paths;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rlx-shards-'));
  const whole = join(folder, 'whole.gguf');
  execFileSync(rlxBinary(), ['merge', join(root, 'models/rustdoc-29m/rustdoc-29m-q4_k_m-00001-of-00003.gguf'), whole]);
  execFileSync(rlxBinary(), ['split', whole, join(folder, 'eight'), '--max-tensors', '10']);
  paths = readdirSync(folder).filter((name) => name.startsWith('eight-')).sort().map((name) => `/eight/${name}`);
  assert.equal(paths.length, SHARDS);
  server = await startServer({ mounts: { ...mounts, '/eight/': folder }, files });
  other = await startServer({ mounts: { '/eight/': folder } });
  browser = await launch({ webgpu: false });
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async () => {
    const { Engine } = await import('/dist/index.js');
    /** Loads, answers, disposes; the answer, the totals that progress showed, or the error. */
    globalThis.attempt = async (model, options) => {
      const totals = new Set();
      const onProgress = ({ loadedBytes, totalBytes }) => totals.add(loadedBytes > totalBytes ? 'less than was read' : totalBytes ?? null);
      try {
        const engine = await Engine.load({ model, device: 'cpu', cache: false, onProgress, ...options });
        const messages = [{ role: 'user', content: 'What does Vec::push do?' }];
        const answer = await engine.chat.completions.create({ messages, temperature: 0, max_tokens: 8 });
        engine.dispose();
        return { text: answer.choices[0].message.content, totals: [...totals] };
      } catch ({ code, what, at }) {
        return { error: { code, what, at } };
      }
    };
  });
});
after(async () => {
  await browser?.close();
  await Promise.all([server?.close(), other?.close()]);
  if (folder) rmSync(folder, { recursive: true });
});
beforeEach(() => {
  for (const { behave, requests } of [server, other]) {
    for (const path of Object.keys(behave)) delete behave[path];
    requests.length = 0;
  }
});

let visits = 0;
const attempt = (model, options) => page.evaluate(({ model, options }) => attempt(model, options), { model, options });
const all = (from, how) => {
  for (const path of paths) from.behave[path] = { ...how };
  visits += 1; // addresses of which the browser's own cache has nothing
  return paths.map((path) => `${from.url}${path}?${visits}`);
};
const ranged = (from) => from.requests.filter(({ range }) => range !== null).length;

// Name, how the server behaves, whether it is another origin's, and of how many shards the rest alone is asked for.
for (const [name, how, elsewhere = false, ranges = 0] of [
  ['an ETag', {}, false, 4],
  ['Last-Modified and no ETag', { etag: null, lastModified: TUESDAY }],
  ['neither ETag nor Last-Modified', { etag: null }],
  ['a weak ETag', { etag: 'W/"v1"' }],
  ['Last-Modified and no ranges', { etag: null, lastModified: TUESDAY, ranges: false }],
  ['an ETag and no lengths', { length: false }, false, 4],
  ['compressed answers', { gzip: true }],
  ['another origin, headers hidden', { exposed: [] }, true],
  ['another origin, headers hidden, Last-Modified and no ETag', { exposed: [], etag: null, lastModified: TUESDAY }, true],
  ['another origin, headers hidden, neither', { exposed: [], etag: null }, true],
  ['another origin that shows its ETag and hides Content-Range', { exposed: ['ETag'] }, true, 4],
  ['another origin that shows ETag and Content-Range', { exposed: ['ETag', 'Content-Range'] }, true, 4],
  ['another origin, compressed answers, headers hidden', { exposed: [], gzip: true }, true],
]) {
  test(`eight shards load: ${name}`, async () => {
    const from = elsewhere ? other : server;
    const { text, totals, error } = await attempt(all(from, how));
    assert.equal(error, undefined, JSON.stringify(error));
    assert.match(text, ANSWER);
    assert.ok(!totals.includes('less than was read'), `progress showed ${totals}`);
    assert.equal(ranged(from), ranges);
  });
}

test('a shard that is replaced while it waits is told, whatever the server says of versions', async () => {
  const path = paths[6];
  const bytes = readFileSync(join(folder, path.slice('/eight/'.length)));
  const changed = Buffer.from(bytes);
  changed[100] ^= 1;
  const versions = [bytes, changed].map((bytes, version) => ({ bytes: bytes.length, version, read: (from, to) => bytes.subarray(from, to) }));
  for (const how of [{}, { etag: null, lastModified: TUESDAY }, { etag: null }, { etag: null, ranges: false }]) {
    const model = all(server, how);
    let asked = 0;
    // From the second request on it is another file, of the same length.
    Object.defineProperty(files, path, { configurable: true, get: () => versions[Math.min(asked++, 1)] });
    const { error } = await attempt(model);
    assert.deepEqual(error, { code: 'io', what: 'the file changed on the server while it was loading', at: model[6] }, JSON.stringify(how));
    delete files[path];
    assert.equal(asked, 'etag' in how ? 2 : 3, 'times that it was asked for');
  }
});

test('nothing of all this was an uncaught error', () => assert.deepEqual(logs.filter((line) => line.startsWith('uncaught')), []));
