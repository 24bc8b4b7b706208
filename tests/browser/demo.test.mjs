// The built demo, as any static server serves it: without cross-origin isolation headers.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fetched, ownOf, sizes } from '../../scripts/size.mjs';
import { ANSWER, faults, startDemo, visitor } from './demo_pages.mjs';
import { openPage, root, screenshots, startServer } from './harness.mjs';

let demo, server, page, context, logs, ready, idle, answers;
before(async () => {
  demo = await startDemo();
  ({ server } = demo);
  ({ page, context, logs, ready, idle, answers } = await demo.open());
});
after(() => demo?.close());

const shardRequests = () =>
  server
    .asked('.gguf')
    .map(({ method }) => method)
    .sort();

test('the first visit loads the default model and says what it runs on', { timeout: 60_000 }, async () => {
  await ready();
  assert.equal(await page.evaluate(() => crossOriginIsolated), false);
  assert.match(
    await page.locator('#status').textContent(),
    /^rustdoc-29m · CPU: relaxed-simd, 1 thread · not WebGPU, because (this browser has no WebGPU|WebGPU has no adapter)/,
  );
  assert.equal(await page.locator('#loading').isVisible(), false);
  assert.equal(await page.locator('#error').isVisible(), false);
  assert.equal(await page.locator('#questions button').count(), 5);
  assert.deepEqual(shardRequests(), ['GET', 'GET', 'GET']);
  assert.deepEqual(
    server.asked('.wasm').map(({ path }) => /rlx-?[a-z]*(?=-)/.exec(path)[0]),
    ['rlx-relaxed'],
    'one build',
  );
  await screenshots(page, 'demo-ready');
});

test('a question button answers, and a follow-up stays in the conversation', { timeout: 60_000 }, async () => {
  await page.locator('#questions button').first().click();
  await answers.first().waitFor();
  await idle();
  assert.match(await answers.last().textContent(), ANSWER);
  assert.match(await answers.last().locator('pre').textContent(), /vec\.push\(3\);/);
  assert.match(
    await page.locator('.message.assistant .speed').textContent(),
    /^[\d.]+ tokens\/s · first after [\d.]+ m?s · \d+ tokens$/,
  );
  await page.locator('#prompt').fill('Who are you?');
  await page.locator('#prompt').press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('.message.assistant').length === 2);
  await idle();
  assert.equal(await page.locator('.message').count(), 4);
  assert.ok((await answers.last().textContent()).length > 5);
  await screenshots(page, 'demo-answered');
});

test('until now the page has fetched what its size counts, and nothing else but the colours of code', () => {
  const name = (path) => path.replace(/^.*\//, '').replace(/-[^/]{8}(?=\.(js|css)$)/, '');
  const rows = sizes(join(root, 'www/dist'));
  const counted = [...fetched(rows, { threads: false }), ...ownOf(rows)]
    .map((row) => name(row.name))
    .filter((each) => each !== 'index.html');
  const asked = [...server.asked('.js'), ...server.asked('.css')].map(({ path }) => name(path));
  assert.deepEqual([...new Set(asked)].sort(), [...counted, 'highlight.js', 'rolldown-runtime.js'].sort());
});

test('on a narrow screen nothing is wider than the page', async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${wide} px too wide`);
  await page.setViewportSize({ width: 1280, height: 800 });
});

test('Stop keeps what was said, and New chat begins again', { timeout: 60_000 }, async () => {
  await page.locator('#new-chat').click();
  assert.equal(await page.locator('.message').count(), 0);
  // Stopped from within the page as soon as there is text: a round trip would come too late.
  await page.evaluate(() => {
    const observer = new MutationObserver(() => {
      if ((document.querySelector('.message.assistant .markdown')?.textContent.length ?? 0) < 5) return;
      observer.disconnect();
      document.getElementById('stop').click();
    });
    observer.observe(document.getElementById('conversation'), { childList: true, subtree: true, characterData: true });
    document.querySelectorAll('#questions button')[2].click();
  });
  await page.locator('.message.assistant .remark').waitFor();
  await idle();
  assert.ok((await answers.last().textContent()).length >= 5);
  assert.equal(await page.locator('.message.assistant .remark').textContent(), 'Stopped.');
  await page.locator('#new-chat').click();
  assert.equal(await page.locator('.message').count(), 0);
  assert.equal(await page.locator('#welcome').isVisible(), true);
  await page.locator('#questions button').first().click();
  await answers.first().waitFor();
  await idle();
  assert.match(await answers.last().textContent(), ANSWER);
});

test('a second visit makes no shard request but a revalidation', { timeout: 60_000 }, async () => {
  server.requests.length = 0;
  await page.reload();
  await ready();
  assert.deepEqual(shardRequests(), ['HEAD', 'HEAD', 'HEAD']);
  await page.locator('#questions button').first().click();
  await answers.first().waitFor();
  await idle();
  assert.match(await answers.last().textContent(), ANSWER);
});

test('a model that is not there is told, with what to do', async () => {
  const { page: other } = await demo.open('?model=none.gguf');
  await other.locator('#error').waitFor();
  assert.match(
    await other.locator('#error-what').textContent(),
    /^the server answered 404 Not Found \(.*\/none\.gguf\)$/,
  );
  assert.equal(await other.locator('#error-hint').textContent(), 'check the address');
  assert.equal(await other.locator('#status').textContent(), 'No model loaded');
});

test('the console has no error', async () => {
  await context.close();
  assert.deepEqual(faults(logs), []);
});

test(
  'on a page that may share memory the same demo has threads, and downloads one build',
  { timeout: 60_000 },
  async () => {
    const isolated = await startServer({ mounts: { '/': join(root, 'www/dist') }, isolated: true });
    const other = await openPage(demo.browser, `${isolated.url}/`);
    try {
      const its = visitor(other.page);
      await its.ready();
      const cores = await other.page.evaluate(() => Math.min(8, navigator.hardwareConcurrency));
      assert.match(await other.page.locator('#status').textContent(), new RegExp(`CPU: relaxed-simd, ${cores} thread`));
      if (cores > 1)
        assert.deepEqual(
          isolated.asked('.wasm').map(({ path }) => /rlx-threads-relaxed/.test(path)),
          [true],
        );
      await other.page.locator('#questions button').first().click();
      await its.answers.first().waitFor();
      await its.idle();
      assert.match(await its.answers.last().textContent(), ANSWER);
      assert.deepEqual(faults(other.logs), []);
    } finally {
      await other.context.close();
      await isolated.close();
    }
  },
);
