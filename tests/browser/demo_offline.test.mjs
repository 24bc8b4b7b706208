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
before(async () => {
  demo = await startDemo();
});
after(async () => {
  await demo?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A server of its own, which a test may stop, and a visitor whose browser takes service workers. */
async function visit(mounts = { '/': dist }, query = '') {
  const server = await startServer({ mounts: { '/fixtures/': join(root, 'tests/fixtures'), '/rustdoc-29m/': join(root, 'models/rustdoc-29m'), ...mounts } });
  const opened = await openPage(demo.browser, `${server.url}/${query}`, { viewport: { width: 1280, height: 800 } });
  opened.page.setDefaultTimeout(10_000);
  return { server, ...opened, ...visitor(opened.page) };
}

/** Resolves once the page and what it needs is kept. */
const kept = (page) => page.waitForFunction(() => navigator.serviceWorker.controller?.state === 'activated');

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
  for (const [button, shown] of [['#settings', '#system'], ['#models', '#stored li']]) {
    await page.locator(button).click();
    await page.locator(shown).first().waitFor();
    await page.keyboard.press('Escape');
  }
  // What was never used is not there, and says so.
  await page.getByRole('link', { name: 'Inspect' }).click();
  await page.locator('#inspect-error').waitFor();
  assert.match(await page.locator('#inspect-error').textContent(), /needs the network once/);
  assert.deepEqual(logs.filter((line) => line.startsWith('uncaught')), []);
  await context.close();
});
