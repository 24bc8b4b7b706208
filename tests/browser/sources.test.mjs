// Models by a name of the Hub, which a server of ours mirrors, and from a directory and a stream; and what a model would need.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { bigGguf } from '../support/big_gguf.mjs';
import { questionsOf } from '../support/parity.mjs';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const model = 'tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf';
const expected = JSON.parse(readFileSync(join(root, 'tests/fixtures/rustdoc-2m/expected.json'), 'utf8'));
const questions = questionsOf({ format: 'q4_k_m' }, expected, 'sources').sort((a, b) => a.tokens - b.tokens).slice(0, 1);
const bytes = readFileSync(join(root, model)).length;

/** 5 GB, of which a page reads the header. */
const big = bigGguf({ layers: 100 });

/** What the Hub and the host of its files were asked. */
const asked = [];
const listen = (answer) => new Promise((resolve) => {
  const server = createServer((request, response) => {
    response.setHeader('access-control-allow-origin', '*');
    response.setHeader('access-control-allow-headers', '*, authorization');
    response.setHeader('access-control-expose-headers', '*');
    if (request.method === 'OPTIONS') return response.writeHead(204).end();
    asked.push({ host: server.name, path: request.url, authorization: request.headers.authorization ?? null, key: request.headers['x-key'] ?? null });
    answer(request, response);
  }).listen(0, '127.0.0.1', () => resolve(Object.assign(server, { url: `http://127.0.0.1:${server.address().port}` })));
});

let files, hub, server, browser, inPage;
before(async () => {
  files = Object.assign(await listen((_, response) => response.writeHead(200, { 'content-length': bytes, etag: '"1"' }).end(readFileSync(join(root, model)))), { name: 'files' });
  hub = Object.assign(await listen(({ url, headers }, response) => {
    if (headers.authorization !== 'Bearer t') return response.writeHead(401).end();
    if (url === '/api/models/rlx/rustdoc/revision/v1') {
      return response.writeHead(200, { 'content-type': 'application/json', etag: '"1"' }).end(JSON.stringify({ siblings: [{ rfilename: 'README.md' }, { rfilename: 'a/m-Q4_K_M.gguf' }, { rfilename: 'm-Q8_0.gguf' }] }));
    }
    if (url === '/rlx/rustdoc/resolve/v1/a/m-Q4_K_M.gguf') return response.writeHead(302, { location: `${files.url}/x` }).end();
    response.writeHead(404).end();
  }), { name: 'hub' });
  server = await startServer({ mounts: { ...mounts, '/tests/': join(root, 'tests') }, files: { '/big.gguf': big } });
  browser = await launch({ webgpu: false });
  const { page } = await openPage(browser, `${server.url}/pages/empty.html`);
  inPage = page;
});
after(async () => {
  await browser?.close();
  await server?.close();
  hub?.close();
  files?.close();
});

/** Asks the questions of a model of the mirrored Hub; or its error. */
const fromHub = (options) => inPage.evaluate(async ({ hub, questions, options }) => {
  const { Engine } = await import('/dist/index.js');
  const { differences } = await import('/support/parity.mjs');
  const mirrored = (url, init) => fetch(String(url).replace('https://huggingface.co', hub), init);
  try {
    const engine = await Engine.load({ device: 'cpu', cache: false, fetch: mirrored, ...options });
    const found = await differences(engine, questions, 32);
    engine.dispose();
    return { found };
  } catch ({ code, what, at, hint }) {
    return { code, what, at, hint };
  }
}, { hub: hub.url, questions, options });

test('a name of the Hub answers as its file does, and headers stay with the Hub', async () => {
  asked.length = 0;
  const headers = { authorization: 'Bearer t', 'x-key': 'k' };
  assert.deepEqual(await fromHub({ model: 'hf:rlx/rustdoc@v1', headers }), { found: [] });
  assert.deepEqual(asked.at(-1), { host: 'files', path: '/x', authorization: null, key: null });
  assert.ok(asked.filter(({ host }) => host === 'hub').every(({ authorization }) => authorization === 'Bearer t'));
});

test('what the Hub refuses says how to be let in, and what a repository lacks says what it has', async () => {
  const refused = await fromHub({ model: 'hf:rlx/rustdoc@v1' });
  assert.deepEqual([refused.code, refused.what], ['io', 'the server answered 401 Unauthorized']);
  assert.match(refused.hint, /headers: \{ authorization: 'Bearer …' \}/);
  const lacks = await fromHub({ model: 'hf:rlx/rustdoc:Q2_K@v1', headers: { authorization: 'Bearer t' } });
  assert.deepEqual([lacks.code, lacks.what, lacks.hint], ['usage', 'there is no Q2_K', 'there are Q4_K_M, Q8_0']);
});

test('a directory and a stream answer', async () => {
  const found = await inPage.evaluate(async ({ address, questions }) => {
    const { Engine } = await import('/dist/index.js');
    const { differences } = await import('/support/parity.mjs');
    const response = await fetch(address);
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('given', { create: true });
    const file = await folder.getFileHandle('m-Q4_K_M.gguf', { create: true });
    await response.clone().body.pipeTo(await file.createWritable());
    const all = {};
    for (const [name, model] of Object.entries({ folder, file, stream: response.body })) {
      const engine = await Engine.load({ model, device: 'cpu' });
      all[name] = await differences(engine, questions, 32);
      await engine[Symbol.asyncDispose]();
    }
    return all;
  }, { address: `/${model}`, questions });
  assert.deepEqual(found, { folder: [], file: [], stream: [] });
});

test('what a model would need is known from its headers', async () => {
  const { needs, stored, tooBig, info } = await inPage.evaluate(async (model) => {
    const { Engine } = await import('/dist/index.js');
    const options = { model, device: 'cpu', contextLength: 256 };
    const needs = await Engine.estimate(options);
    const engine = await Engine.load(options);
    const info = engine.info();
    engine.dispose();
    const stored = await Engine.estimate(options);
    const { fits, refusal, ...rest } = await Engine.estimate({ model: '/big.gguf', device: 'cpu' });
    return { needs, stored, tooBig: { ...rest, fits, code: refusal?.code }, info };
  }, `/${model}`);
  assert.deepEqual([needs.device, needs.fits, needs.fileBytes, needs.downloadBytes], ['cpu', true, bytes, bytes]);
  assert.deepEqual([stored.fileBytes, stored.downloadBytes], [bytes, 0], 'what is stored is not downloaded');
  for (const key of ['contextLength', 'weightBytes', 'memoryBytes']) assert.equal(needs[key], info[key], key);
  assert.deepEqual([tooBig.fits, tooBig.code, tooBig.fileBytes], [false, 'out_of_memory', big.bytes]);
  assert.ok(tooBig.memoryBytes > tooBig.availableBytes);
});
