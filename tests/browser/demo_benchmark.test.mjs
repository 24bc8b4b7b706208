// The demo's benchmark: the model on every executor that there is, beside what memory allows, and beside wllama.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { faults, SMALL, startDemo } from './demo_pages.mjs';
import { screenshots } from './harness.mjs';

const PATIENCE = { timeout: 60_000 };
/** Pages that may share memory with workers, and pages that may not. */
let isolated, usual;
before(async () => {
  [isolated, usual] = await Promise.all([startDemo({ isolated: true }), startDemo()]);
});
after(() => Promise.all([isolated?.close(), usual?.close()]));

/** The view with the small model, which is ready to be measured. */
async function opened(demo) {
  const visitor = await demo.open(`${SMALL}#benchmark`, { viewport: { width: 1440, height: 1000 } });
  await visitor.page.locator('#benchmark:enabled').waitFor();
  return visitor;
}

const results = (page) => page.locator('#benchmark-results').waitFor(PATIENCE);
const jsonOf = async (page) => JSON.parse(await page.locator('#benchmark-json').textContent());
const rows = (page) =>
  page
    .locator('#benchmark-results tbody tr')
    .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
const median = (numbers) => numbers.sort((a, b) => a - b)[(numbers.length - 1) >> 1];
/** As the table shows a rate. */
const shown = (rate) => Number(rate.toFixed(rate < 99.95 ? 1 : 0)).toLocaleString('en');

test('threads and one thread take turns; chart, table and JSON say the same, and a GPU is missing for a reason', async () => {
  const { page, context, logs } = await opened(isolated);
  isolated.server.requests.length = 0;
  await page.locator('#benchmark').click();
  await results(page);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'benchmark-results');
  const found = await jsonOf(page);
  const { plan, measured, missing, model } = found;
  assert.deepEqual(
    { format: found.format, version: found.version, wllama: found.wllama, isolated: found.isolated, model },
    {
      format: 'rlx-benchmark',
      version: 1,
      wllama: null,
      isolated: true,
      model: { name: 'rustdoc-2m', architecture: 'llama' },
    },
  );
  assert.match(found.system, /Chrome\//);
  assert.ok(Math.abs(Date.now() - Date.parse(found.date)) < 60_000);
  assert.equal(plan.in_turns, true);
  assert.deepEqual(
    measured.map(({ executor }) => executor),
    ['threads', 'thread'],
  );
  assert.deepEqual(
    missing.map(({ executor }) => executor),
    ['webgpu'],
  );
  const table = await rows(page);
  for (const [i, each] of measured.entries()) {
    assert.equal(each.threads > 1, each.executor === 'threads');
    assert.ok(each.adapter.endsWith(each.threads === 1 ? '1 thread' : `${each.threads} threads`), each.adapter);
    assert.ok(each.load_ms > 0 && each.memory_bytes > each.weight_bytes && each.bandwidth.bytes_per_s > 1e8);
    assert.equal(each.bandwidth.threads, each.threads);
    assert.equal(each.turns.length, plan.rounds * plan.prompts.length);
    // Every prompt is computed whole, and no answer ends before its time.
    for (const turn of each.turns) assert.equal(turn.prompt_tokens, turn.asked);
    const whole = each.turns.filter(({ asked }) => asked === plan.prompts[0]);
    assert.ok(whole.every(({ tokens }) => tokens === plan.tokens));
    const decode = median(whole.map((turn) => turn.decode_tokens_per_s));
    const [name, writing, share] = table[i];
    assert.match(name, each.threads === 1 ? /^CPU, one thread/ : new RegExp(`^CPU, ${each.threads} threads`));
    assert.ok(writing.startsWith(shown(decode)), `${writing} begins with ${shown(decode)}`);
    const percent = Math.round((100 * decode * each.weight_bytes) / each.bandwidth.bytes_per_s);
    assert.ok(share.startsWith(`${percent} % of `), `${share}: ${percent}`);
  }
  assert.match(await page.locator('.missing').textContent(), /^WebGPU was not measured\. WebGPU has no adapter/);
  const [writing, reading] = await page.locator('.chart').allTextContents();
  assert.match(writing, /CPU, one thread[\d,.]+ tokens\/s\d+ % of what this memory allows/);
  assert.match(reading, /prompt of 512/);
  assert.equal(await page.locator('.chart .most').count(), 2);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    (async () => {
      await page.locator('#benchmark-results .share summary').click();
      await page.getByRole('link', { name: 'Download' }).click();
    })(),
  ]);
  assert.deepEqual(JSON.parse(readFileSync(await download.path(), 'utf8')), found);
  assert.equal(isolated.server.asked('wllama').length, 0, 'nobody asked for another engine');
  await screenshots(page, 'demo-benchmark');
  assert.deepEqual(faults(logs), []);
  await context.close();
});

test('wllama gets the same file, texts and lengths; a page that shares no memory says so', async () => {
  const { page, context, logs } = await opened(usual);
  usual.server.requests.length = 0;
  await page.locator('#peers').check();
  await page.locator('#benchmark').click();
  await results(page);
  const { plan, measured, missing, wllama } = await jsonOf(page);
  assert.match(wllama, /^\d+\.\d+\.\d+$/);
  assert.deepEqual(
    measured.map(({ executor }) => executor),
    ['thread', 'wllama-thread'],
    JSON.stringify(missing),
  );
  assert.deepEqual(
    missing.map(({ executor }) => executor),
    ['webgpu', 'threads', 'wllama-threads'],
  );
  assert.match(missing[1].why, /may not share memory with workers.*Cross-Origin-Opener-Policy/);
  const [own, other] = measured;
  assert.deepEqual(
    other.turns.map(({ asked, tokens }) => [asked, tokens]),
    own.turns.map(({ asked, tokens }) => [asked, tokens]),
  );
  // Its tokenizer begins a text with a token of its own.
  for (const { asked, prompt_tokens: tokens } of other.turns)
    assert.ok(tokens >= asked && tokens <= asked + 2, `${tokens} of ${asked}`);
  for (const { asked, decode_tokens_per_s: rate } of other.turns) assert.equal(rate > 0, asked === plan.prompts[0]);
  assert.match((await rows(page))[1][0], /^wllama, one thread llama\.cpp by wllama/);
  assert.equal(await page.locator('iframe').count(), 0, 'its memory is free again');
  assert.deepEqual(faults(logs), []);
  await context.close();
});

test('it is stopped in the middle, and the chat has its model again', async () => {
  const { page, context, logs, ready, ask } = await opened(usual);
  await page.locator('#benchmark').click();
  await page.locator('[role=status]', { hasText: /^Measuring, round/ }).waitFor();
  await page.locator('#benchmark-stop').click();
  await page.locator('[role=status]', { hasText: 'Stopped' }).waitFor();
  assert.equal(await page.locator('#benchmark-results').count(), 0);
  await page.locator('#benchmark:enabled').waitFor();
  await page.getByRole('link', { name: 'Chat', exact: true }).click();
  await ready();
  await ask('What is ownership?');
  assert.deepEqual(faults(logs), []);
  await context.close();
});

test('a model that is gone by then is an error in words, and the page goes on', async () => {
  const { page, context } = await opened(usual);
  const path = '/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf';
  await page.evaluate(async () => {
    const { caches } = globalThis;
    for (const name of await caches.keys()) await caches.delete(name);
    const root = await navigator.storage.getDirectory();
    for await (const name of root.keys()) await root.removeEntry(name, { recursive: true });
  });
  usual.server.behave[path] = { status: 404 };
  await page.locator('#benchmark').click();
  await page.locator('#error-what').waitFor();
  assert.match(await page.locator('#benchmark-error').textContent(), /404/);
  delete usual.server.behave[path];
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.locator('#benchmark:enabled').waitFor();
  await context.close();
});

test('the address of the page that was before leads here', async () => {
  const { page, context } = await usual.open('devices.html');
  await page.locator('#measure').waitFor();
  assert.match(page.url(), /#benchmark$/);
  await context.close();
});
