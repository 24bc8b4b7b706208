// The demo in Firefox and in WebKit: it loads, the built-in model answers on the CPU, an answer is stopped, and what is
// there is read. Chromium does far more in tests/browser/demo*.test.mjs.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ANSWER } from '../browser/demo_pages.mjs';
import { outFolder, startServer } from '../browser/harness.mjs';
import { firefox, until, webkit } from './browsers.mjs';
import { root } from './project.mjs';

const dist = join(root, 'www/dist');
const ends = [];
let url;
before(async () => {
  assert.ok(existsSync(join(dist, 'index.html')), 'build the demo first: node scripts/build.mjs demo');
  const server = await startServer({ mounts: { '/': dist } });
  ends.push(() => server.close());
  url = server.url;
});
after(async () => {
  for (const end of ends.reverse()) await end();
});

for (const browser of [firefox, webkit]) {
  test(`${browser.name} shows the demo, asks, stops and goes on`, { skip: browser.skip, timeout: 240_000 }, async () => {
    const page = await browser.open(ends);
    try {
      await page.go(`${url}/`);
      await visit(page, browser.name.toLowerCase());
    } finally {
      await page.close();
    }
  });
}

async function visit(page, name) {
  const look = async (what) => {
    mkdirSync(outFolder, { recursive: true });
    writeFileSync(join(outFolder, `demo-${name}-${what}.png`), await page.picture());
  };
  const wait = (fn, what) => until(() => page.evaluate(fn), what);
  // What goes wrong from here on, for the end.
  await page.evaluate(() => {
    globalThis.faults = [];
    addEventListener('error', ({ message }) => globalThis.faults.push(message));
    addEventListener('unhandledrejection', ({ reason }) => globalThis.faults.push(String(reason)));
  });
  await wait(() => document.getElementById('send')?.disabled === false, 'the built-in model is loaded');
  await look('welcome');
  assert.match(await page.evaluate(() => document.getElementById('status').textContent), /^rustdoc-29m · CPU: /);

  await page.type('#prompt', 'What does Vec::push do?');
  await page.click('#send');
  await wait(() => document.querySelector('.message.assistant .code-keyword') !== null && !document.getElementById('stop'), 'an answer with coloured code');
  assert.match(await page.evaluate(() => document.querySelector('.message.assistant .markdown').innerText), ANSWER);
  await look('answer');

  // The button is pressed as soon as a word is there: an answer of the built-in model takes less than a second.
  await page.evaluate(() => {
    new MutationObserver((_, observer) => {
      const [, second] = document.querySelectorAll('.message.assistant .markdown');
      if (!second?.innerText.trim()) return;
      observer.disconnect();
      document.getElementById('stop').click();
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  await page.type('#prompt', 'Show an example of Option::map.');
  await page.click('#send');
  await wait(() => document.querySelector('.remark') !== null && !document.getElementById('stop'), 'an answer that was stopped');
  const [text, remark] = await page.evaluate(() => {
    const second = document.querySelectorAll('.message.assistant')[1];
    return [second.querySelector('.markdown').innerText, second.querySelector('.remark').textContent];
  });
  assert.equal(remark, 'Stopped.');
  assert.match(text, /^Here/);
  assert.doesNotMatch(text, /None\);\s*$/, 'the whole answer is there');

  // It is asked again, and this time whole.
  await page.click('.message.assistant:last-of-type [aria-label="Ask again"]');
  await wait(() => /None\);\s*$/.test(document.querySelectorAll('.message.assistant .markdown')[1]?.innerText) && !document.getElementById('stop'), 'the whole answer');
  await look('again');

  await page.click('#models');
  await wait(() => document.querySelectorAll('dialog .models li').length > 5, 'the list of models');
  await look('models');
  await page.evaluate(() => document.querySelector('dialog').querySelector('[aria-label="Close"]').click());

  await page.evaluate(() => (location.hash = '#inspect'));
  const failed = () => page.evaluate(() => document.getElementById('inspect-error')?.textContent);
  await wait(() => document.querySelectorAll('.stage').length >= 3 || document.getElementById('inspect-error') !== null, 'the look inside');
  assert.equal((await failed()) ?? null, null);
  await look('inspect');
  // Conversations are kept: they are there when the page is opened again.
  await page.evaluate(() => (location.hash = ''));
  assert.deepEqual(await page.evaluate(() => globalThis.faults), []);
  await page.go(`${url}/?again`);
  await wait(() => document.querySelector('.conversation .title')?.textContent === 'What does Vec::push do?', 'the conversation of before');
}
