// What the tests of the demo share: the built page on a server of its own, and what a visitor waits for.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { launch, openPage, root, startServer } from './harness.mjs';

export const ANSWER = /appends an element to the back of a collection/;
const dist = join(root, 'www/dist');

/** A server and a browser, without a GPU unless asked for one. `open` opens a page of a new visitor; all is closed by `close`. */
export async function startDemo({ files, behave, webgpu = false, isolated = false } = {}) {
  assert.ok(existsSync(join(dist, 'index.html')), 'build the demo first: node scripts/build.mjs demo');
  const server = await startServer({
    mounts: { '/': dist, '/fixtures/': join(root, 'tests/fixtures') },
    files,
    behave,
    isolated,
  });
  const browser = await launch({ webgpu });
  const open = async (query = '', options = {}) => {
    // What a service worker keeps behind the first visit would stand among the requests that tests count.
    const opened = await openPage(browser, `${server.url}/${query}`, { serviceWorkers: 'block', ...options });
    opened.page.setDefaultTimeout(10_000);
    return { ...opened, ...visitor(opened.page) };
  };
  const close = async () => {
    await browser.close();
    await server.close();
  };
  return { server, browser, open, close };
}

/** The small model: quick to load, and what it says is noise. */
export const SMALL = '?model=fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf';

/** What a visitor of a page does and waits for. */
export function visitor(page) {
  const ready = () => page.waitForFunction(() => document.getElementById('send')?.disabled === false);
  const answers = page.locator('.message.assistant .markdown');
  return {
    ready,
    /** Resolves once no answer is being written. */
    idle: () => page.waitForFunction(() => !document.getElementById('stop')),
    answers,
    async ask(question) {
      const before = await answers.count();
      await page.locator('#prompt').fill(question);
      await page.locator('#prompt').press('Enter');
      await page.waitForFunction(
        (count) =>
          document.querySelectorAll('.message.assistant .markdown').length > count && !document.getElementById('stop'),
        before,
      );
    },
    /** The news at the page's edge, once it has this text. */
    told: (text) => page.locator('#notice p').filter({ hasText: text }).first().waitFor(),
  };
}

/** Lines of the console that say that something went wrong. */
export const faults = (logs) => logs.filter((line) => /^(error|uncaught)/.test(line));
