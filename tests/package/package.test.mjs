// The packed package: what is in it, what checkers of packages say, and that fresh projects run it.

import assert from 'node:assert/strict';
import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch, openPage, startServer } from '../browser/harness.mjs';
import { ask, end, html, lastLine, model, packed, page, project, questions, rightAnswer, root, run, serveModel, source, space, tool, write } from './project.mjs';

let browser;
const servers = [];
before(async () => {
  browser = await launch({ webgpu: false });
});
after(async () => {
  await browser?.close();
  for (const server of servers) await server.close();
});

/** What a served folder's page answers: its title, when it has one. */
async function titleOf(folder, path = '/', { headers } = {}) {
  const server = await startServer({ mounts: { '/': folder }, ...(headers && { headers }) });
  servers.push(server);
  const { page, context, logs } = await openPage(browser, `${server.url}${path}`);
  try {
    await page.waitForFunction(() => document.title !== '', undefined, { timeout: 60_000 });
    return await page.title();
  } catch (error) {
    throw new Error(`${error.message}\n${logs.join('\n')}`, { cause: error });
  } finally {
    await context.close();
  }
}

test('the package has its licences, its README and every file that it exports', () => {
  const paths = packed.files.map(({ path }) => path);
  for (const path of ['LICENSE-MIT', 'LICENSE-APACHE', 'README.md', 'package.json']) assert.ok(paths.includes(path), path);
  for (const path of ['LICENSE-MIT', 'LICENSE-APACHE']) assert.deepEqual(readFileSync(join(source, path)), readFileSync(join(root, path)));
  const { exports } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'));
  const exported = Object.values(exports).flatMap((target) => (typeof target === 'string' ? [target] : Object.values(target)));
  for (const path of exported) assert.ok(paths.includes(path.slice(2)), path);
  const others = paths.filter((path) => !/^(dist\/((openai|adapters)\/)?[\w-]+\.(js|d\.ts|wasm)|LICENSE-\w+|README\.md|package\.json)$/.test(path));
  assert.deepEqual(others, []);
});

test('npm would publish it', () => {
  run('npm', ['publish', '--dry-run', '--offline', packed.path], { cwd: space });
});

test('publint and attw find nothing', () => {
  run(process.execPath, [tool('publint', 'src', 'cli.js'), 'run', packed.path, '--strict', '--pack=false']);
  run(process.execPath, [tool('@arethetypeswrong', 'cli', 'dist', 'index.js'), packed.path, '--profile', 'esm-only', '--entrypoints', '.', 'inspect', 'static', 'worker', 'threads', 'openai', 'ai-sdk', 'langchain', 'language-model', 'package.json']);
});

test('its declarations compile with the types of Node alone, and with those of the DOM', () => {
  const use = `import { Engine, Session, RlxError } from 'rlx-wasm';
import * as all from 'rlx-wasm/static';
const engine: Engine = await all.Engine.load({ model: 'hf:a/b', wasm: new Uint8Array(), headers: { a: 'b' } });
const { choices } = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'a' }] });
choices[0]?.message.content satisfies string | null | undefined;
// @ts-expect-error no such option
await Session.load({ modle: 'a' });
throw new RlxError('usage', 'a');
`;
  const withDom = `${use}
const session = await Session.load({ model: 'a', gpu: navigator.gpu });
session.gpuDevice?.createBuffer({ size: 4, usage: 8 }) satisfies GPUBuffer | undefined;
`;
  const folder = project('types', { 'use.ts': use, 'dom.ts': withDom });
  const compile = (file, lib) => run(process.execPath, [
    tool('typescript', 'bin', 'tsc'), '--ignoreConfig', '--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--typeRoots', tool('@types'), '--lib', lib, file,
  ], { cwd: folder });
  compile('use.ts', 'es2022');
  compile('dom.ts', 'es2022,dom');
});

test('Node answers, from a path', () => {
  const folder = project('node', { 'ask.js': ask(), 'main.js': "import { ask } from './ask.js';\nconsole.log(await ask(process.argv[2]));" });
  assert.equal(lastLine(run(process.execPath, ['main.js', model], { cwd: folder })), rightAnswer);
});

test('Deno answers, from a path', () => {
  const folder = project('deno', { 'ask.js': ask(), 'main.js': "import { ask } from './ask.js';\nconsole.log(await ask(Deno.args[0]));" });
  assert.equal(lastLine(run(tool('.bin', 'deno'), ['run', '-A', 'main.js', model], { cwd: folder })), rightAnswer);
});

test('Deno reads and writes while an answer comes, so that a stream is sent as it comes', () => {
  const folder = project('deno-streams', {
    'main.js': `import { readFile } from 'node:fs/promises';
import { Engine } from 'rlx-wasm';
const engine = await Engine.load({ model: Deno.args[0], device: 'cpu' });
// An answer of 300 tokens: the one that ends answers is never chosen.
const stream = await engine.chat.completions.create({ messages: ${JSON.stringify(questions[0].messages)}, max_tokens: 300, logit_bias: { ${end}: -100 }, stream: true });
let [over, reads] = [false, 0];
const reading = (async () => {
  for (; !over; reads += 1) await readFile('main.js');
})();
for await (const _ of stream);
const between = reads;
over = true;
await reading;
engine.dispose();
console.log(between);`,
  });
  assert.ok(Number(lastLine(run(tool('.bin', 'deno'), ['run', '-A', 'main.js', model], { cwd: folder }))) > 0);
});

test('a page answers without a bundler, under a strict security policy', async () => {
  const folder = project('plain', { 'ask.js': ask('./node_modules/rlx-wasm/dist/index.js'), 'page.js': page("'/m.gguf'"), 'index.html': html('page.js') });
  serveModel(folder);
  const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'";
  assert.equal(await titleOf(folder, '/index.html', { headers: { 'content-security-policy': policy } }), rightAnswer);
});

test('esbuild bundles it: scripts from its entries, wasm beside them', async () => {
  const folder = project('esbuild', { 'ask.js': ask(), 'page.js': page("'/m.gguf'"), 'public/index.html': html('page.js') });
  const { build } = await import('esbuild');
  await build({
    absWorkingDir: folder, outdir: 'public', bundle: true, splitting: true, format: 'esm', minify: true, logLevel: 'warning',
    entryPoints: [
      { in: 'page.js', out: 'page' }, { in: 'rlx-wasm/worker', out: 'engine_worker' }, { in: 'rlx-wasm/threads', out: 'worker' },
      { in: 'rlx-wasm/sound-worklet', out: 'sound_worklet' },
    ],
  });
  const dist = join(folder, 'node_modules/rlx-wasm/dist');
  for (const name of readdirSync(dist).filter((name) => name.endsWith('.wasm'))) cpSync(join(dist, name), join(folder, 'public', name));
  serveModel(join(folder, 'public'));
  assert.equal(await titleOf(join(folder, 'public'), '/index.html'), rightAnswer);
});

test('Vite builds it, with nothing to set up', async () => {
  const folder = project('vite', { 'ask.js': ask(), 'page.js': page("new URL('m.gguf', location.href)"), 'index.html': html('./page.js') });
  serveModel(join(folder, 'public'));
  const { build } = await import('vite');
  await build({ root: folder, configFile: false, logLevel: 'warn' });
  assert.ok(existsSync(join(folder, 'dist/index.html')));
  assert.equal(await titleOf(join(folder, 'dist'), '/index.html'), rightAnswer);
});

test('a service worker answers, by the static entry', async () => {
  const folder = project('service', {
    'ask.js': ask('./node_modules/rlx-wasm/dist/static.js'),
    'service.js': `import { ask } from './ask.js';
addEventListener('message', ({ data, source }) => { ask(data, { cache: false }).then((answer) => source.postMessage(answer), (error) => source.postMessage(String(error.stack))); });
addEventListener('activate', (event) => event.waitUntil(clients.claim()));`,
    'page.js': `navigator.serviceWorker.onmessage = ({ data }) => { document.title = data; };
await navigator.serviceWorker.register('/service.js', { type: 'module' });
(await navigator.serviceWorker.ready).active.postMessage(new URL('/m.gguf', location.href).href);`,
    'index.html': html('page.js'),
  });
  serveModel(folder);
  assert.equal(await titleOf(folder, '/index.html'), rightAnswer);
});

test("OpenAI's client in a page is answered by a service worker, as the recipes have it", { timeout: 240_000 }, async () => {
  const recipes = ['openai_service_worker.ts', 'openai_page.ts'];
  const folder = project('openai', {
    ...Object.fromEntries(recipes.map((name) => [name, readFileSync(join(source, 'recipes', name), 'utf8')])),
    'page.js': "import OpenAI from 'openai';\nimport { clientHere } from './openai_page.ts';\nglobalThis.client = await clientHere();\nglobalThis.OpenAI = OpenAI;\ndocument.title = 'ready';",
    'public/index.html': html('page.js'),
  });
  const { build } = await import('esbuild');
  await build({
    absWorkingDir: folder, outdir: 'public', bundle: true, format: 'esm', logLevel: 'warning', entryPoints: ['page.js', 'openai_service_worker.ts'],
    nodePaths: [join(root, 'node_modules')], // the official client is the repository's
  });
  const at = join(folder, 'public');
  assert.doesNotMatch(readFileSync(join(at, 'openai_service_worker.js'), 'utf8'), /\bimport\(/);
  const dist = join(folder, 'node_modules/rlx-wasm/dist');
  for (const name of readdirSync(dist).filter((name) => name.endsWith('.wasm'))) cpSync(join(dist, name), join(at, name));
  cpSync(model, join(at, 'model.gguf'));
  cpSync(join(root, 'tests/fixtures/bert/bert.gguf'), join(at, 'embedder.gguf'));
  const server = await startServer({ mounts: { '/': at } });
  servers.push(server);
  const { page, context, logs } = await openPage(browser, `${server.url}/index.html`);
  const ask = (work, argument) => page.evaluate(work, argument).catch((error) => {
    throw new Error(`${error.message}\n${logs.join('\n')}`, { cause: error });
  });
  try {
    await page.waitForFunction(() => document.title === 'ready');
    assert.equal(page.workers().length, 0, 'the page has no engine of its own');
    const seen = await ask(async (questions) => {
      const answers = [];
      for (const { messages, tokens } of questions) {
        const request = { model: 'rlx', messages, temperature: 0, max_tokens: tokens };
        const whole = await client.chat.completions.create(request);
        let streamed = '';
        for await (const { choices } of await client.chat.completions.create({ ...request, stream: true })) streamed += choices[0].delta.content ?? '';
        answers.push([whole.choices[0].message.content, streamed]);
      }
      return answers;
    }, questions);
    assert.deepEqual(seen, questions.map(({ text }) => [text, text]));

    const others = await ask(async () => {
      const request = { model: 'rlx', prompt: '`Vec::push` appends an', temperature: 0, max_tokens: 5 };
      const { choices } = await client.completions.create(request);
      let streamed = '';
      for await (const chunk of await client.completions.create({ ...request, stream: true })) streamed += chunk.choices[0].text;
      const { data } = await client.embeddings.create({ model: 'rlx', input: ['a', 'b', 'a'] });
      const models = (await client.models.list()).data.map(({ id }) => id);
      return { text: choices[0].text, streamed, vectors: data.map(({ embedding }) => embedding), models };
    });
    assert.ok(others.text.length > 0);
    assert.equal(others.streamed, others.text);
    const [a, b, again] = others.vectors;
    assert.ok(a.length > 0 && a.every(Number.isFinite));
    assert.deepEqual(again, a);
    assert.notDeepEqual(b, a);
    assert.equal(others.models.length, 2);

    const ends = await ask(async ([{ messages, tokens }]) => {
      const wrong = await client.chat.completions.create({ model: 'rlx', messages, temperature: 9 }).catch((error) => [error instanceof OpenAI.BadRequestError, error.param]);
      const stream = await client.chat.completions.create({ model: 'rlx', messages, stream: true });
      for await (const _ of stream) break;
      // The answer that nobody reads has made room.
      const next = await client.chat.completions.create({ model: 'rlx', messages, temperature: 0, max_tokens: tokens });
      return { wrong, next: next.choices[0].message.content };
    }, questions);
    assert.deepEqual(ends, { wrong: [true, 'temperature'], next: questions[0].text });

    // Browsers end a worker that has nothing to do.
    const devtools = await context.newCDPSession(page);
    await devtools.send('ServiceWorker.enable');
    await devtools.send('ServiceWorker.stopAllWorkers');
    const sent = server.sent['/model.gguf'];
    assert.ok(sent > 0);
    const after = await ask(async ([{ messages, tokens }]) => (await client.chat.completions.create({ model: 'rlx', messages, temperature: 0, max_tokens: tokens })).choices[0].message.content, questions);
    assert.equal(after, questions[0].text);
    assert.equal(server.sent['/model.gguf'], sent, 'the model was stored');
    assert.deepEqual(server.requests.filter(({ path }) => path.startsWith('/v1/')), [], 'nothing reached the server');
  } finally {
    await context.close();
  }
});
