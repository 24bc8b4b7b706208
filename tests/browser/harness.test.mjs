// The harness itself: a page that stops answering ends its test, and its browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { STOPPED } from '../support/stopped.mjs';
import { launch, mounts, openPage, startServer } from './harness.mjs';

test('a call of a page that never ends fails, and so does each one behind it', async () => {
  const server = await startServer({ mounts });
  const browser = await launch({ webgpu: false });
  try {
    const { page } = await openPage(browser, `${server.url}/pages/empty.html`, { patience: 1500 });
    assert.equal(await page.evaluate((x) => x + 1, 2), 3);
    await assert.rejects(page.evaluate(() => new Promise(() => {})), ({ message }) => message === `${STOPPED} for 1.5 s`);
    await assert.rejects(page.evaluate(() => 1), /closed/);
  } finally {
    await browser.close();
    await server.close();
  }
});
