// Fresh projects whose tools come from the registry, and other browsers: `npm run test:package` runs them.
//
// Each project names the versions that it is tested with. A browser that is not installed is a skip.

import assert from 'node:assert/strict';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { chromium } from 'playwright-core';
import { chromiumPath, launch, openPage, startServer } from '../browser/harness.mjs';
import { firefox, until, webkit } from './browsers.mjs';
import { ask, html, lastLine, model, page, project, questions, rightAnswer, run, serveModel, space, write } from './project.mjs';
import { workerd } from './workerd.mjs';

const ends = [];
after(async () => {
  for (const end of ends.reverse()) await end();
});

async function serve(folder, options) {
  const server = await startServer({ mounts: { '/': folder }, ...options });
  ends.push(() => server.close());
  return server;
}

/** The title of a page, when it has one. */
async function titleOf(url) {
  const browser = await launch({ webgpu: false });
  try {
    const { page, logs } = await openPage(browser, url);
    await page.waitForFunction(() => document.title.startsWith('{') || document.title.includes('Error'), undefined, { timeout: 60_000 }).catch((error) => {
      throw new Error(`${error.message}\n${logs.join('\n')}`);
    });
    return await page.title();
  } finally {
    await browser.close();
  }
}

test('webpack 5 builds it, with nothing to set up', async () => {
  const folder = project('webpack', { 'src/ask.js': ask(), 'src/index.js': page("'/m.gguf'") }, ['webpack@5.112.2', 'webpack-cli@6.0.1']);
  run('npx', ['webpack', '--mode', 'production'], { cwd: folder });
  write(folder, { 'dist/index.html': html('main.js') });
  serveModel(join(folder, 'dist'));
  assert.equal(await titleOf(`${(await serve(join(folder, 'dist'))).url}/index.html`), rightAnswer);
});

test('Next builds it: a client component imports it in an effect', { timeout: 300_000 }, async () => {
  const folder = project('next', {
    'app/layout.js': "export default function Layout({ children }) { return <html><body>{children}</body></html>; }",
    'app/page.js': `'use client';
import { useEffect, useState } from 'react';
export default function Page() {
  const [answer, setAnswer] = useState('');
  useEffect(() => {
    import('./ask.js').then(({ ask }) => ask('/m.gguf')).then(setAnswer, (error) => setAnswer(String(error.stack)));
  }, []);
  useEffect(() => { document.title = answer; }, [answer]);
  return <p>{answer}</p>;
}`,
    'app/ask.js': ask(),
    'next.config.mjs': "export default { output: 'export' };",
  }, ['next@16.4.6', 'react@19', 'react-dom@19']);
  serveModel(join(folder, 'public'));
  run('npx', ['next', 'build'], { cwd: folder, env: { ...process.env, NEXT_TELEMETRY_DISABLED: '1' } });
  assert.equal(await titleOf(`${(await serve(join(folder, 'out'))).url}/index.html`), rightAnswer);
});

test('Bun answers, from a path', () => {
  const folder = project('bun', { 'ask.js': ask(), 'main.js': "import { ask } from './ask.js';\nconsole.log(await ask(process.argv[2]));" }, ['@oven/bun-linux-x64-baseline@1.4.5']);
  const bun = join(folder, 'node_modules/@oven/bun-linux-x64-baseline/bin/bun');
  assert.equal(lastLine(run(bun, ['main.js', model], { cwd: folder })), rightAnswer);
});

test('workerd answers, with a compiled module and a model of its own binding; what it streams is sent as it comes', async () => {
  const { url } = await workerd({
    'ask.js': ask('rlx-wasm/static'),
    'main.js': `import { Engine } from 'rlx-wasm/static';
import { ask } from './ask.js';
import wasm from 'rlx.wasm';

/** How often a timer ran while an answer came: as often can workerd send what is there. */
async function turnsOfStream(options) {
  const engine = await Engine.load(options);
  const stream = await engine.chat.completions.create({ messages: ${JSON.stringify(questions[0].messages)}, temperature: 0, stream: true });
  let turns = 0;
  const timer = setInterval(() => { turns += 1; });
  for await (const _ of stream);
  clearInterval(timer);
  engine.dispose();
  return turns;
}

export default {
  async fetch({ url }, { files }) {
    const { pathname } = new URL(url);
    if (pathname === '/') return new Response('here');
    const model = 'http://files/m.gguf';
    const options = { wasm, cache: false, fetch: (...request) => files.fetch(...request) };
    const answer = pathname === '/turns' ? turnsOfStream({ model, ...options }) : ask(model, options);
    return new Response(await answer.catch((error) => String(error.stack)));
  },
};`,
  }, [[model, 'm.gguf']], ends);
  const answerOf = async (path) => (await fetch(`${url}${path}`)).text();
  assert.equal(await answerOf('ask'), rightAnswer);
  assert.ok(Number(await answerOf('turns')) > 0, 'the answer held workerd up');
});

test('an extension answers (MV3): its page, and its background', async () => {
  const folder = project('extension', {
    'manifest.json': JSON.stringify({
      manifest_version: 3, name: 'project', version: '1.0', background: { service_worker: 'background.js', type: 'module' },
      content_security_policy: { extension_pages: "script-src 'self' 'wasm-unsafe-eval'" },
    }),
    'package/ask.js': ask('./dist/index.js'),
    'package/ask_static.js': ask('./dist/static.js'),
    'background.js': `import { ask } from './package/ask_static.js';
chrome.runtime.onMessage.addListener((_, __, answer) => {
  ask(chrome.runtime.getURL('m.gguf'), { cache: false }).then(answer, (error) => answer(String(error.stack)));
  return true;
});`,
    'page.js': page("'m.gguf', { cache: false }").replace('./ask.js', './package/ask.js'),
    'page.html': html('page.js'),
    'asks.js': "chrome.runtime.sendMessage('ask').then((answer) => { document.title = answer; });",
    'asks.html': html('asks.js'),
  });
  serveModel(folder);
  // A folder with `node_modules` is an extension too, but Chromium reads every file of it.
  const unpacked = join(space, 'unpacked');
  mkdirSync(unpacked);
  for (const name of ['manifest.json', 'package', 'background.js', 'page.js', 'page.html', 'asks.js', 'asks.html', 'm.gguf']) cpSync(join(folder, name), join(unpacked, name), { recursive: true });
  cpSync(join(folder, 'node_modules/rlx-wasm/dist'), join(unpacked, 'package/dist'), { recursive: true });
  const context = await chromium.launchPersistentContext(join(space, 'profile'), {
    executablePath: chromiumPath(), args: ['--no-sandbox', '--headless=new', '--disable-gpu', `--disable-extensions-except=${unpacked}`, `--load-extension=${unpacked}`, '--disable-features=DisableLoadExtensionCommandLineSwitch'],
    ignoreDefaultArgs: ['--disable-extensions'],
  });
  try {
    const background = context.serviceWorkers()[0] ?? await context.waitForEvent('serviceworker', { timeout: 30_000 });
    for (const name of ['page.html', 'asks.html']) {
      const tab = await context.newPage();
      await tab.goto(new URL(name, background.url()).href);
      await tab.waitForFunction(() => document.title !== '', undefined, { timeout: 60_000 });
      assert.equal(await tab.title(), rightAnswer, name);
    }
  } finally {
    await context.close();
  }
});

/** A page of one's own server, for other browsers. */
async function plain(name) {
  const folder = project(name, { 'ask.js': ask('./node_modules/rlx-wasm/dist/index.js'), 'page.js': page("'/m.gguf'"), 'index.html': html('page.js') });
  serveModel(folder);
  return `${(await serve(folder)).url}/index.html`;
}

for (const browser of [firefox, webkit]) {
  test(`${browser.name} answers`, { skip: browser.skip }, async () => {
    const url = await plain(browser.name.toLowerCase());
    const tab = await browser.open(ends);
    try {
      await tab.go(url);
      assert.equal(await until(() => tab.title(), 'an answer'), rightAnswer);
    } finally {
      await tab.close();
    }
  });
}
