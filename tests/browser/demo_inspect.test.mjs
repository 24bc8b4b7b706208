// The demo's look inside a model: every stage of a program, from headers alone, beside the chat that goes on.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { faults, SMALL, startDemo } from './demo_pages.mjs';
import { root, screenshots } from './harness.mjs';

const bert = readFileSync(join(root, 'tests/fixtures/bert/bert.gguf'));

let demo, page, logs, ask, answers;
before(async () => {
  demo = await startDemo();
  let ready;
  ({ page, logs, ready, ask, answers } = await demo.open(SMALL, { viewport: { width: 1440, height: 900 } }));
  await ready();
  await ask('What is ownership?');
});
after(() => demo?.close());

const tab = (name) => page.getByRole('button', { name, exact: true }).click();
const marked = (title) => page.locator(`section[aria-label="${title}"] .line.marked`).allTextContents();

test('the loaded model is shown at three stages, and none of its weights is fetched again', async () => {
  demo.server.requests.length = 0;
  await page.getByRole('link', { name: 'Inspect' }).click();
  await page.locator('.stage').nth(2).waitFor();
  assert.deepEqual(await page.locator('.stage h2').allTextContents(), ['HIR: blocks', 'MIR: operators', 'LIR: steps']);
  assert.match(await page.locator('h1').textContent(), /^Inside rustdoc-2m/);
  assert.equal(await page.locator('#program').inputValue(), 'decode');
  assert.match(await page.locator('.listing').nth(2).textContent(), /program @decode .*matmul/s);
  assert.ok(
    demo.server.asked('.wasm').some(({ path }) => path.includes('rlx-graphs')),
    'the build with the compiler',
  );
  await screenshots(page, 'demo-inspect');
});

test('a label is followed through all stages, a name in one, and a search marks lines of folded layers', async () => {
  await page.locator('section[aria-label="MIR: operators"] [data-label="blk.0.attn_output"]').click();
  for (const title of ['HIR: blocks', 'MIR: operators', 'LIR: steps']) {
    const lines = await marked(title);
    assert.ok(lines.length > 0 && lines.every((line) => line.endsWith('blk.0.attn_output')), `${title}: ${lines}`);
  }
  await page.locator('section[aria-label="HIR: blocks"] [data-name="%1"]').first().click();
  assert.ok((await marked('HIR: blocks')).every((line) => /%1\b/.test(line)));
  assert.deepEqual(await marked('MIR: operators'), []);
  await page.getByRole('button', { name: 'Stop following' }).click();
  const fold = page.locator('section[aria-label="MIR: operators"] .fold', { hasText: 'blk.1' }).last();
  assert.equal(await fold.getAttribute('aria-expanded'), 'false');
  assert.equal(await page.locator('[data-label="blk.1.ffn_down"]').count(), 0);
  await page.locator('#find').fill('BLK.1.FFN_DOWN');
  assert.ok((await marked('MIR: operators')).length > 0, 'found inside a folded layer');
  await page.locator('#find').fill('');
  await fold.click();
  assert.equal(await fold.getAttribute('aria-expanded'), 'true');
  assert.ok((await page.locator('[data-label="blk.1.ffn_down"]').count()) > 0);
});

test('names are followed by keyboard: a listing is one stop of Tab, arrows go from name to name', async () => {
  await page.locator('section[aria-label="HIR: blocks"] .listing').focus();
  const focus = () =>
    page.evaluate(() => {
      const { dataset, tabIndex, role, className } = document.activeElement;
      return { name: dataset.name ?? dataset.label, tabIndex, role, listing: className === 'listing' };
    });
  const press = async (key) => {
    await page.keyboard.press(key);
    return focus();
  };
  const first = await press('ArrowRight');
  assert.deepEqual([first.tabIndex, first.role], [-1, 'button']);
  const second = await press('ArrowRight');
  assert.notEqual(second.name, undefined);
  assert.deepEqual(await press('ArrowLeft'), first);
  const below = await press('ArrowDown');
  assert.ok(below.name && !below.listing);
  assert.deepEqual(await page.locator('.listing [role=button]').count(), 1, 'no name but the one with the focus is a button');
  await press('Enter');
  assert.equal(await page.locator('.view code').first().textContent(), below.name);
  assert.ok((await marked('HIR: blocks')).length > 0);
  assert.equal((await press('Escape')).name, below.name, 'following ends, the cursor stays');
  assert.deepEqual(await marked('HIR: blocks'), []);
  assert.ok((await press('Escape')).listing, 'and then leads back to the listing');
  assert.equal(await page.locator('.listing :is([tabindex], [role=button])').count(), 0);
});

test('fusion, operators and memory have their views; shaders and times are those of a GPU alone', async () => {
  await tab('Fusion');
  assert.match(await page.locator('.report').textContent(), /\d+ operators became \d+\..*residual/s);
  await tab('Operators');
  assert.match(await page.locator('.report').textContent(), /matmul/);
  await tab('Memory');
  const titles = await page
    .locator('.picture')
    .evaluate(({ shadowRoot }) => shadowRoot.querySelectorAll('rect title').length);
  assert.ok(titles > 3, 'pointing at a buffer names it');
  await screenshots(page, 'demo-inspect-memory');
  assert.equal(await page.getByRole('button', { name: 'Shaders', exact: true }).count(), 0);
  await tab('Timeline');
  assert.match(await page.locator('.report').textContent(), /timed by a GPU’s own clock.*Choose WebGPU/);
  await tab('Stages');
});

test('another program, and another model by its file', async () => {
  await page.locator('#program').selectOption('prefill_last');
  await page.waitForFunction(() =>
    document.querySelectorAll('.listing')[2].textContent.includes('program @prefill_last'),
  );
  await page.locator('.another summary').click();
  const choose = (name, buffer) =>
    page.locator('#model-files').setInputFiles({ name, mimeType: 'application/octet-stream', buffer });
  await choose('bad.gguf', Buffer.from('GGUF and no more of it'));
  await page.locator('#inspect-error').waitFor();
  assert.match(await page.locator('#inspect-error').textContent(), /bad\.gguf/);
  assert.equal(await page.locator('.stage').count(), 3, 'what was shown is still there');
  await choose('bert.gguf', bert);
  await page.waitForFunction(() => document.getElementById('program')?.value === 'encode');
  assert.equal(await page.locator('#inspect-error').count(), 0);
  assert.match(await page.locator('h1').textContent(), /^Inside bert/);
});

test('on a narrow screen nothing is wider than the page', async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await screenshots(page, 'demo-inspect-narrow');
  assert.ok(wide <= 0, `${wide} px too wide`);
  await page.setViewportSize({ width: 1440, height: 900 });
});

test('the chat is as it was, and the browser goes back to the look inside', async () => {
  await page.getByRole('link', { name: 'Chat', exact: true }).click();
  assert.equal(await answers.count(), 1);
  await ask('Who are you?');
  assert.equal(await answers.count(), 2);
  await page.goBack();
  await page.locator('.stage').first().waitFor();
  await page.reload();
  await page.locator('.stage').first().waitFor();
  assert.match(await page.locator('h1').textContent(), /^Inside rustdoc-2m/, 'a link to the view shows the page\'s model');
  assert.deepEqual(faults(logs), []);
});
