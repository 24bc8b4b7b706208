// How long a visitor of the demo waits: from opening the page to its first paint, to the model, to the first word of an
// answer and to its end. Chromium without a GPU, from a server on this machine.
//
//   node benches/page/run.mjs --note "an idle machine"     (--visits N, default 5; --out FILE)
//
// Each visitor is a new one with an empty cache, and then comes back once. The question is asked from within the page
// as soon as that is possible. Times are the page's own, since its navigation began.

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startDemo } from '../../tests/browser/demo_pages.mjs';
import { root } from '../../tests/browser/harness.mjs';

const { values } = parseArgs({ options: { note: { type: 'string', default: '' }, visits: { type: 'string', default: '5' }, out: { type: 'string' } } });
const date = new Date().toISOString().slice(0, 10);
const WHAT = ['first_paint_ms', 'largest_paint_ms', 'model_ms', 'first_word_ms', 'answer_ms'];

/** Runs before the page's scripts: asks its first question when the page allows it, and notes when things happened. */
function watch() {
  const times = {};
  globalThis.visitTimes = times;
  new PerformanceObserver((list) => {
    for (const { name, startTime } of list.getEntries()) if (name === 'first-paint') times.first_paint_ms = startTime;
  }).observe({ type: 'paint', buffered: true });
  new PerformanceObserver((list) => {
    times.largest_paint_ms = list.getEntries().at(-1).startTime;
  }).observe({ type: 'largest-contentful-paint', buffered: true });
  new MutationObserver(() => {
    const button = document.querySelector('#questions button');
    if (!times.model_ms && button && !button.disabled) {
      times.model_ms = performance.now();
      button.click();
    }
    if (!times.first_word_ms && document.querySelector('.message.assistant .markdown')?.textContent) times.first_word_ms = performance.now();
    if (times.first_word_ms && !document.getElementById('stop')) times.answer_ms ??= performance.now();
  }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];

async function visit(page) {
  await page.waitForFunction(() => globalThis.visitTimes?.answer_ms, undefined, { timeout: 60_000 });
  const times = await page.evaluate(() => globalThis.visitTimes);
  return Object.fromEntries(WHAT.map((what) => [what, Math.round(times[what])]));
}

const load_before = loadavg();
const demo = await startDemo();
const version = demo.browser.version();
const first = [];
const again = [];
for (let i = 0; i < Number(values.visits); i += 1) {
  const context = await demo.browser.newContext({ viewport: { width: 1280, height: 800 } });
  for (const visits of [first, again]) {
    const page = await context.newPage();
    await page.addInitScript(watch);
    await page.goto(`${demo.server.url}/`);
    visits.push(await visit(page));
    await page.close();
  }
  await context.close();
}
await demo.close();
const medians = (visits) => Object.fromEntries(WHAT.map((what) => [what, median(visits.map((each) => each[what]))]));
const result = {
  date,
  what: 'The demo in headless Chromium without a GPU, from localhost, with the built-in model (19 MB): milliseconds since the navigation began, until the first paint, the largest, the model is there, the first word of its answer, the answer’s end (49 tokens)',
  machine: `${cpus().length} cores of ${cpus()[0].model}`,
  commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim(),
  browser: version,
  note: values.note,
  load_average: { before: load_before, after: loadavg() },
  first_visit: { median: medians(first), visits: first },
  second_visit: { median: medians(again), visits: again },
};
const out = values.out ?? join(root, 'benches', 'results', `${date}-page.json`);
writeFileSync(out, `${JSON.stringify(result, null, 1)}\n`);
console.log(result.first_visit.median, result.second_visit.median);
