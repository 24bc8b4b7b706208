// The demo's timeline of a step by kernel, on a GPU in software.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { faults, SMALL, startDemo } from './demo_pages.mjs';
import { outFolder } from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let demo, page, logs;
before(async () => {
  demo = await startDemo({ webgpu: true });
  ({ page, logs } = await demo.open(`${SMALL}&device=cpu#inspect`, { viewport: { width: 1440, height: 900 } }));
  page.setDefaultTimeout(60_000);
  await page.locator('.stage').nth(2).waitFor();
  await page.locator('#target').selectOption('webgpu');
  await page.getByRole('button', { name: 'Timeline', exact: true }).click();
});
after(() => demo?.close());

test('a step is timed: a picture with all kernels, and a table with the sums', { timeout: 120_000 }, async () => {
  assert.match(await page.locator('.timeline').textContent(), /It takes \d+(\.\d+)? MB of the GPU’s memory/);
  await page.locator('#past').fill('20');
  await page.locator('#time-step').click();
  await page.locator('#kernels').waitFor();
  const sum = await page.locator('#timeline-sum').textContent();
  assert.match(sum, /A step behind 20 tokens takes [\d.]+ (µs|ms|s) in (\d+) kernels/);
  const kernels = Number(/in (\d+) kernels/.exec(sum)[1]);
  assert.equal(await page.locator('#kernels [role=option]').count(), kernels);
  const counts = await page.locator('.timeline tbody tr td:nth-child(3)').allTextContents();
  assert.equal(counts.reduce((all, count) => all + Number(count), 0), kernels, 'the table has every kernel');
});

test('kernels are told by keyboard, and a layer is looked at alone', async () => {
  await page.locator('#kernels').focus();
  const told = () => page.locator('#kernel-told strong').textContent();
  const first = await told();
  await page.keyboard.press('End');
  assert.notEqual(await told(), first);
  await page.keyboard.press('Home');
  for (let i = 0; i < 30 && !(await told()).startsWith('blk.0.'); i += 1) await page.keyboard.press('ArrowRight');
  const all = await page.locator('#kernels [role=option]').count();
  await page.keyboard.press('Enter');
  const labels = await page.locator('#kernels [role=option]').evaluateAll((each) => each.map((one) => one.getAttribute('aria-label')));
  assert.ok(labels.length < all && labels.every((label) => label.startsWith('blk.0.')), labels.join());
  const active = await page.locator('#kernels').getAttribute('aria-activedescendant');
  assert.equal(await page.locator(`#${active}`).getAttribute('aria-selected'), 'true');
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#kernels [role=option]').count(), all);
});

for (const colorScheme of ['light', 'dark']) {
  test(`nothing serious is found by axe-core in ${colorScheme}, and nothing is wider than the page`, async () => {
    await page.emulateMedia({ colorScheme });
    for (const width of [1440, 768, 360]) {
      await page.setViewportSize({ width, height: 900 });
      await page.screenshot({ path: join(outFolder, `demo-timeline-${colorScheme}-${width}.png`), fullPage: true });
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 150)}`), []);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
    }
  });
}

test('another program is timed anew, and a trace can be stopped', { timeout: 120_000 }, async () => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.locator('#program').selectOption('prefill');
  await page.locator('#kernels').waitFor({ state: 'detached' });
  await page.locator('#past').fill('1000000');
  await page.locator('#time-step').click();
  assert.match(await page.locator('#timeline-error').textContent(), /there is room for \d+/);
  // Its kernels are compiled already.
  await page.locator('#program').selectOption('decode');
  await page.locator('#timeline-error').waitFor({ state: 'detached' });
  await page.locator('#time-step').click();
  await page.locator('#stop-timing').click();
  await page.locator('#time-step').waitFor();
  assert.equal(await page.locator('#kernels').count(), 0);
  assert.deepEqual(faults(logs), []);
});
