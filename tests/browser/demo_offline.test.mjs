// The built demo without a network, over a change of its version, and under its policy.

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { build } from 'vite';
import { ANSWER, faults, SMALL, startDemo, visitor } from './demo_pages.mjs';
import { launchKept, openPage, root, startServer } from './harness.mjs';

const dist = join(root, 'www/dist');
const folder = mkdtempSync(join(tmpdir(), 'rlx-offline-'));

let demo;
const servers = [];
before(async () => {
  demo = await startDemo();
});
after(async () => {
  await demo?.close();
  for (const server of servers) await server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A server of a test's own, which it may stop. */
async function serve(options) {
  const server = await startServer(options);
  servers.push(server);
  return server;
}

/** A server, and a visitor whose browser takes service workers. */
async function visit(mounts = { '/': dist }, query = '') {
  const server = await serve({
    mounts: Object.assign(mounts, {
      '/fixtures/': join(root, 'tests/fixtures'),
      '/rustdoc-29m/': join(root, 'models/rustdoc-29m'),
    }),
  });
  const opened = await openPage(demo.browser, `${server.url}/${query}`, { viewport: { width: 1280, height: 800 } });
  opened.page.setDefaultTimeout(10_000);
  return { server, ...opened, ...visitor(opened.page) };
}

/** Resolves once the page and what it needs is kept. */
const kept = (page) => page.waitForFunction(() => navigator.serviceWorker.controller?.state === 'activated');

/** Opens each dialog of the chat, and closes it when what it shows has come. */
async function openDialogs(page) {
  for (const [button, shown] of [
    ['#settings', '#system'],
    ['#models', '#stored li'],
  ]) {
    await page.locator(button).click();
    await page.locator(shown).first().waitFor();
    await page.keyboard.press('Escape');
  }
}

test('after the first visit the page answers without a server', { timeout: 60_000 }, async () => {
  const { server, page, context, logs, ready, ask, answers } = await visit();
  await ready();
  await kept(page);
  await ask('What does Vec::push do?');
  const first = await answers.last().textContent();
  assert.match(first, ANSWER);
  const wasm = server.asked('.wasm').map(({ path }) => /rlx[a-z-]*(?=-)/.exec(path)[0]);
  assert.deepEqual([...new Set(wasm)], ['rlx-relaxed'], 'of the builds, the one that this browser takes');

  await server.close();
  await context.setOffline(true);
  logs.length = 0;
  await page.reload();
  await ready();
  await ask('What does Vec::push do?');
  assert.equal(await answers.last().textContent(), first);
  await openDialogs(page);
  // What was never used is not there, and says so.
  await page.getByRole('link', { name: 'Inspect' }).click();
  await page.locator('#inspect-error').waitFor();
  assert.match(await page.locator('#inspect-error').textContent(), /needs the network once/);
  assert.deepEqual(
    logs.filter((line) => line.startsWith('uncaught')),
    [],
  );
  await context.close();
});

/** The demo as it is built from changed sources: the settings have another heading, and so every name that hangs on it. */
async function changedBuild() {
  const outDir = join(folder, 'changed');
  const changed = {
    name: 'changed',
    enforce: 'pre',
    transform: (code, id) =>
      id.endsWith('settings_drawer.tsx')
        ? code.replace('title="Settings of this chat"', 'title="Changed settings"')
        : null,
  };
  await build({ root: join(root, 'www'), logLevel: 'warn', publicDir: false, build: { outDir }, plugins: [changed] });
  return outDir;
}

test(
  'a tab goes on over a deploy with the scripts of its version, is told, and comes back with what was written',
  { timeout: 60_000 },
  async () => {
    const mounts = { '/': dist };
    const { server, page, context, logs, ready, idle, ask, answers, told } = await visit(mounts, SMALL);
    await ready();
    await kept(page);
    // Only now is the page opened by the worker; the first visit was the network's.
    await page.reload();
    await ready();
    const heading = () => page.locator('dialog h2').first().textContent();
    const settings = async () => {
      await page.locator('#settings').click();
      await page.locator('#system').waitFor();
      const said = await heading();
      await page.keyboard.press('Escape');
      return said;
    };
    await ask('What is a vector?');
    const said = await answers.last().textContent();

    const changed = await changedBuild();
    mounts['/'] = changed;
    const update = () =>
      page.evaluate(async () => {
        const registration = await navigator.serviceWorker.getRegistration();
        const found = new Promise((resolve) =>
          registration.addEventListener('updatefound', () => resolve(registration.installing), { once: true }),
        );
        await registration.update();
        const worker = await found;
        while (!['redundant', 'activated'].includes(worker.state))
          await new Promise((resolve) => worker.addEventListener('statechange', resolve, { once: true }));
        return worker.state;
      });
    // In the middle of the deploy a file is missing: nothing of the newer version is shown.
    const late = readdirSync(join(changed, 'assets')).find((name) => name.startsWith('settings_drawer-'));
    server.behave[`/assets/${late}`] = { status: 404 };
    assert.equal(await update(), 'redundant');
    await page.reload();
    await ready();
    assert.equal(await page.locator('#notice p').count(), 0);
    delete server.behave[`/assets/${late}`];

    await page.locator('.conversation .title').first().click();
    await page.locator('#prompt').fill('And a');
    assert.equal(await update(), 'activated');
    await told('A newer version of this page is there.');
    assert.equal(
      await settings(),
      'Settings of this chat',
      'the script of the version that is open, fetched after the deploy',
    );
    await page.locator('#notice').getByRole('button', { name: 'Load again' }).click();
    await page.waitForFunction(() => document.getElementById('prompt')?.value === 'And a');
    await ready();
    await idle();
    assert.equal(await answers.last().textContent(), said);
    assert.equal(await settings(), 'Changed settings');
    assert.deepEqual(
      logs.filter((line) => line.startsWith('uncaught')),
      [],
    );
    await context.close();
  },
);

test(
  "models, ranges and other addresses are not the worker's, and another page of the folder is; what was used once is kept",
  { timeout: 60_000 },
  async () => {
    const { server, page, context, ready } = await visit(undefined, SMALL);
    await ready();
    await kept(page);
    const other = await serve({
      files: { '/model.gguf': Buffer.from('GGUF') },
      behave: { '/model.gguf': { exposed: ['etag'] } },
    });
    server.requests.length = 0;
    const answers = await page.evaluate(async (elsewhere) => {
      const ask = async (address, init) => {
        const { status, headers } = await fetch(address, init);
        return [status, headers.get('content-range')];
      };
      return [
        await ask('fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf', { headers: { range: 'bytes=8-' } }),
        await ask('index.html', { headers: { range: 'bytes=8-' } }),
        await ask('missing.js'),
        await ask(elsewhere),
      ];
    }, `${other.url}/model.gguf`);
    assert.deepEqual(
      answers.map(([status]) => status),
      [206, 206, 404, 200],
    );
    assert.match(answers[0][1], /^bytes 8-/);
    assert.deepEqual(
      server.requests.map(({ path, range }) => [path, range]),
      [
        ['/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf', 'bytes=8-'],
        ['/index.html', 'bytes=8-'],
        ['/missing.js', null],
      ],
    );
    assert.equal(other.requests.length, 1);
    // What was used once is there without a server, too.
    await page.getByRole('link', { name: 'Inspect' }).click();
    await page.locator('.stage').nth(2).waitFor();
    await server.close();
    await page.reload();
    await page.locator('.stage').nth(2).waitFor();
    await page.goto(`${server.url}/devices.html`);
    await page.locator('#measure').waitFor();
    await context.close();
  },
);

test('every view keeps to the policy, and nobody else is asked for anything', { timeout: 60_000 }, async () => {
  const { server, page, context, logs, ready, ask } = await visit(undefined, SMALL);
  const asked = [];
  context.on('request', (request) => asked.push(request.url()));
  await context.addInitScript(() => {
    globalThis.violations = [];
    addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sample }) =>
      violations.push(`${violatedDirective} ${blockedURI} ${sample}`),
    );
  });
  const kept = async () => assert.deepEqual(await page.evaluate(() => globalThis.violations), [], page.url());
  await page.reload();
  await ready();
  await page
    .locator('#attach')
    .setInputFiles({ name: 'main.rs', mimeType: 'text/plain', buffer: Buffer.from('fn main() {}') });
  await ask('What does this do?');
  await openDialogs(page);
  await page.getByRole('button', { name: 'Export this chat' }).click();
  await page.getByRole('link', { name: 'Inspect' }).click();
  await page.locator('.stage').nth(2).waitFor();
  for (const tab of ['Fusion', 'Operators', 'Memory'])
    await page.getByRole('button', { name: tab, exact: true }).click();
  assert.notEqual(
    await page
      .locator('.picture')
      .evaluate(({ shadowRoot }) => getComputedStyle(shadowRoot.querySelector('.page')).fill),
    'rgb(0, 0, 0)',
    'the picture has its colours',
  );
  const views = await page.locator('.views a').evaluateAll((all) => all.map((each) => each.getAttribute('href')));
  for (const view of views) {
    await page.locator(`.views a[href="${view}"]`).click();
    await page.locator('main').waitFor();
    await page.waitForTimeout(200);
    await kept();
    if (view === '#') await page.getByRole('link', { name: 'Inspect' }).click();
  }
  await page.goto(`${server.url}/devices.html`);
  await page.locator('#measure').waitFor();
  await kept();
  assert.deepEqual(
    asked.filter((url) => !/^(blob|data):/.test(url) && !url.startsWith(server.url)),
    [],
  );
  assert.deepEqual(faults(logs), []);

  // And the policy is there: what it forbids does not happen.
  const refused = await page.evaluate(async () => {
    await new Promise((resolve) => setTimeout(resolve)); // what a test itself evaluates is free of the policy
    const tries = {
      eval: () => (0, eval)('1'),
      markup: () => void (document.createElement('p').innerHTML = '<b>x</b>'),
      worker: () => new Worker('https://example.com/worker.js'),
    };
    return Object.keys(tries).filter((name) => {
      try {
        tries[name]();
        return false;
      } catch {
        return true;
      }
    });
  });
  assert.deepEqual(refused, ['eval', 'markup', 'worker']);
  await context.close();
});

test('Chromium offers to install it', { timeout: 60_000 }, async () => {
  const server = await serve({ mounts: { '/': dist } });
  const { context, kill } = await launchKept(join(folder, 'profile'));
  const page = await context.newPage();
  await page.goto(`${server.url}/`);
  await kept(page);
  const cdp = await context.newCDPSession(page);
  const { errors, data } = await cdp.send('Page.getAppManifest');
  assert.deepEqual(errors, []);
  assert.equal(JSON.parse(data).display, 'standalone');
  assert.deepEqual((await cdp.send('Page.getInstallabilityErrors')).installabilityErrors, []);
  await context.close();
  await kill();
});
