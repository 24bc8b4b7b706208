// How soon the page is drawn, and how calmly while an answer comes: no shift, no long task. The answer is of a worker
// that stands in for the engine's, so that it is as long and as fast as this needs; all else is the built page.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { faults, startDemo } from './demo_pages.mjs';
import { root } from './harness.mjs';

const { version } = JSON.parse(readFileSync(join(root, 'crates/rlx-wasm/js/package.json'), 'utf8'));
const SECTION =
  '## A part\n\nSome *words* about `Vec<T>` and [a link](https://example.com), which go on for a while.\n\n- one\n- two\n\n```rust\nlet v = vec![1, 2, 3];\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n';
/** 2,000 tokens of four characters. */
const ANSWER = SECTION.repeat(45).slice(0, 8000);

/** Answers as the engine's worker does (`wire.ts`): `TOKENS` at a time, sixty times a second. */
function standIn(hello, text) {
  const TOKENS = 8;
  const info = {
    device: 'cpu',
    adapter: 'none',
    model: { name: 'stand-in', architecture: 'none', contextLength: 8192 },
    contextLength: 8192,
    fallbackReason: null,
    comparison: null,
    weightBytes: 0,
    activations: 'f32',
    kv: 'f32',
  };
  addEventListener('message', ({ data, ports: [port] }) => {
    if (data?.rlx !== 'connect') return;
    let left = 64; // chunks that may be under way
    port.onmessage = ({ data: { call, id, count } }) => {
      left += count ?? 0;
      if (call !== 'chat') return call && port.postMessage({ value: undefined, id, info });
      port.postMessage({ stream: id });
      let at = 0;
      const timer = setInterval(() => {
        for (let i = 0; i < TOKENS && left > 0 && at < text.length; i += 1, left -= 1, at += 4) {
          port.postMessage({
            id,
            chunk: { choices: [{ index: 0, delta: { content: text.slice(at, at + 4) }, finish_reason: null }] },
          });
        }
        if (at < text.length) return;
        clearInterval(timer);
        port.postMessage({ id, chunk: { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] } });
        port.postMessage({ value: undefined, id, info });
      }, 16);
    };
    port.postMessage({ hello, lock: undefined });
  });
}

let demo;
before(async () => {
  demo = await startDemo();
});
after(() => demo?.close());

async function visit() {
  const opened = await demo.open('', { viewport: { width: 1280, height: 800 } });
  const { page } = opened;
  const worker = `(${standIn})(${JSON.stringify(version)}, ${JSON.stringify(ANSWER)})`;
  await page.route('**/engine_worker-*.js', (route) => route.fulfill({ contentType: 'text/javascript', body: worker }));
  await page.addInitScript(() => {
    globalThis.seen = { paint: [], 'layout-shift': [] };
    const parts = (sources = []) =>
      sources.map(({ node }) => node?.className || `${node?.nodeName} ${node?.textContent.slice(0, 20)}`);
    for (const type of Object.keys(seen)) {
      const note = ({ name, startTime, value, sources }) => ({ name, startTime, value, parts: parts(sources) });
      const hear = (list) => seen[type].push(...list.getEntries().map(note));
      new PerformanceObserver(hear).observe({ type, buffered: true });
    }
  });
  await page.reload();
  await opened.ready();
  return opened;
}

test('the first paint comes within a second', { timeout: 60_000 }, async () => {
  const times = [];
  // Other programs of this machine make it late too: one of three is the page's own time.
  for (let i = 0; i < 3 && !(times.at(-1) < 1000); i += 1) {
    const { page, context } = await visit();
    await page.waitForFunction(() => globalThis.seen.paint.some(({ name }) => name === 'first-contentful-paint'));
    times.push(
      await page.evaluate(() => globalThis.seen.paint.find(({ name }) => name === 'first-contentful-paint').startTime),
    );
    await context.close();
  }
  console.log(`first contentful paint after ${times.map(Math.round).join(', ')} ms`);
  assert.ok(Math.min(...times) < 1000, `${times} ms`);
});

/** Milliseconds of the page's thread that its tasks took while `work` went on, the longest first. */
async function tasksOf(page, work) {
  await demo.browser.startTracing(page, {
    categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'],
  });
  await work();
  const { traceEvents } = JSON.parse(await demo.browser.stopTracing());
  const key = ({ pid, tid }) => `${pid} ${tid}`;
  const main = new Set(
    traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(key),
  );
  // The thread's own time: a machine that other programs use too makes all of them long by the clock.
  const took = traceEvents.filter(
    (event) => /RunTask$/.test(event.name) && event.tdur !== undefined && main.has(key(event)),
  );
  return took.map(({ tdur }) => tdur / 1000).sort((a, b) => b - a);
}

test(
  '2,000 tokens of Markdown come to the whole page without a shift, and without a task above 50 ms',
  { timeout: 60_000 },
  async () => {
    const { page, context, logs, ask, answers } = await visit();
    // The first question puts a conversation where the welcome was: one frame that is not of tokens.
    await ask('Tell me all.');
    await page.waitForTimeout(300); // what that moved has been told by then
    await page.evaluate(() => (seen['layout-shift'].length = 0));
    const tasks = await tasksOf(page, () => ask('Tell me all.'));
    assert.equal(
      await answers.last().locator('pre').count(),
      Math.floor(ANSWER.length / SECTION.length),
      'the answer is whole',
    );
    assert.ok(tasks.length > 100, 'tasks were seen');
    // The row below an answer, with its speed, is always below it: it is what is read that must not move.
    // A link does a little, when its address has come and is hidden.
    const shifts = await page.evaluate(() =>
      seen['layout-shift'].filter(({ parts }) => parts.some((part) => part !== 'actions')),
    );
    const shift = shifts.reduce((sum, { value }) => sum + value, 0);
    console.log(
      `the longest tasks ${tasks
        .slice(0, 3)
        .map((ms) => ms.toFixed(1))
        .join(', ')} ms; layout shift ${shift.toFixed(4)}`,
    );
    assert.ok(tasks[0] < 50, `${tasks.slice(0, 5)} ms`);
    assert.ok(shift < 0.05, JSON.stringify(shifts.slice(0, 5)));
    assert.deepEqual(faults(logs), []);
    await context.close();
  },
);
