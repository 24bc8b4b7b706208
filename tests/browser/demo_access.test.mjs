// The demo without a mouse, and for who hears it: keys alone, names and contrasts by axe-core, an answer said once.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { callingModel } from '../support/calling_model.mjs';
import { hearingModel } from '../support/hearing_model.mjs';
import { png } from '../support/png.mjs';
import { faults, SMALL, startDemo } from './demo_pages.mjs';
import { outFolder, root } from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const CHATS = {
  format: 'rlx-conversations',
  version: 1,
  conversations: [
    {
      title: 'How do I push to a vector?',
      created: 1,
      updated: 2,
      model: 'a model',
      system: '',
      settings: {},
      messages: [
        { role: 'user', text: 'How do I push to a vector?', attachments: [{ name: 'main.rs', text: 'fn main() {}' }] },
        {
          role: 'assistant',
          reasoning: 'They ask about `Vec`.',
          speed: { tokens: 120, firstTokenMs: 85, tokensPerSecond: 41.5 },
          text: '### `Vec::push`\n\nIt appends an **element** to the end, see [the docs](https://doc.rust-lang.org/std/vec/).\n\n```rust\nlet mut v = vec![1, 2];\nv.push(3); // now three\n```\n\n| Call | Cost |\n|---|--:|\n| `push` | O(1) |\n| `insert` | O(n) |\n\n- [x] amortised\n- [ ] constant\n\n> It may reallocate: $c_{n+1} = 2 c_n$.',
        },
        { role: 'user', text: 'And pop?' },
        {
          role: 'assistant',
          text: '',
          calls: [
            { name: 'calculate', arguments: '{"expression":"1 + 1"}', result: '2' },
            {
              name: 'weather',
              arguments: '{"city":"Bern"}',
              result: 'Error: There is no function “weather”.',
              failed: true,
            },
          ],
        },
        { role: 'assistant', text: 'It takes the last', end: 'stopped' },
      ],
    },
  ],
};

let demo;
before(async () => {
  demo = await startDemo({ files: { '/calling.gguf': callingModel(), ...hearingModel('/hears/') } });
});
after(() => demo?.close());

/** What axe-core finds serious in what is in view. */
async function serious(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes.map(({ html, any }) => `${html.slice(0, 120)} ${any[0]?.message ?? ''}`).join(' | ')}`,
    );
}

// Colors do not depend on the width.
for (const [colorScheme, widths, at] of [
  ['light', [1440, 768, 360], 'at three widths'],
  ['dark', [1440], 'at one width'],
]) {
  test(`nothing serious is found in ${colorScheme}, ${at}`, { timeout: 180_000 }, async () => {
    const { page, context, logs, ready } = await demo.open(SMALL, {
      colorScheme,
      viewport: { width: 1440, height: 900 },
    });
    await ready();
    const look = async (name) => {
      const { width } = page.viewportSize();
      await page.screenshot({ path: join(outFolder, `demo-${name}-${colorScheme}-${width}.png`) });
      assert.deepEqual(await serious(page), [], `${name}, ${width} px`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${name} is ${wide} px too wide at ${width}`);
    };
    await page
      .locator('#import')
      .setInputFiles({ name: 'chats.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(CHATS)) });
    await page.locator('#notice p').getByRole('button', { name: 'Dismiss' }).click();
    for (const width of widths) {
      await page.setViewportSize({ width, height: width === 360 ? 740 : 900 });
      if (width === 1440) {
        await look('welcome');
        await page.locator('.conversation .title').first().click();
        await page.locator('.code-keyword').first().waitFor();
        await page.locator('.call summary').last().click();
      }
      await look('chat');
      if (width === 768) continue;
      await page.locator('#settings').click();
      await page.locator('#system').waitFor();
      await look('settings');
      await page.keyboard.press('Escape');
      await page.locator('#models').click();
      await page.locator('#stored li').first().waitFor();
      await look('models');
      await page.keyboard.press('Escape');
      await page.getByRole('link', { name: 'Inspect' }).click();
      await page.locator('.stage').nth(2).waitFor();
      await look('inspect');
      for (const view of ['Fusion', 'Operators', 'Memory', 'Timeline']) {
        await page.getByRole('button', { name: view, exact: true }).click();
        if (width === 1440) await look(`inspect-${view.toLowerCase()}`);
      }
      await page.getByRole('button', { name: 'Stages', exact: true }).click();
      await page.getByRole('link', { name: 'Search', exact: true }).click();
      await page.locator('#search-model').waitFor();
      if (width === 1440) {
        await look('search-first');
        await page.locator('.need summary').first().click();
        await page.locator('#model-address').fill('fixtures/bert/bert.gguf');
        await page.locator('#model-address').press('Enter');
        await page.locator('#search-ready').waitFor();
        const text = 'What a vector is, and what the borrow checker says of it.';
        await page.locator('#search-file').setInputFiles([
          { name: 'a.md', mimeType: 'text/markdown', buffer: Buffer.from(`# Vectors\n\n${text}\n`) },
          { name: 'photo.png', mimeType: 'image/png', buffer: Buffer.from([0x89, 0x50]) },
        ]);
        await page.locator('#search-query').fill('vector');
      }
      await page.locator('.result').first().waitFor();
      await page.locator('#search-query').press('ArrowDown');
      await look('search');
      await page.locator('#search-query').press('Enter');
      await page.locator('dialog mark').waitFor();
      await look('search-reading');
      await page.keyboard.press('Escape');
      await page.getByRole('link', { name: 'Talk', exact: true }).click();
      await page.locator('#talk-model').waitFor();
      if (width === 1440) {
        await look('talk-first');
        await page.locator('.need summary').first().click();
        await page.locator('#model-address').fill('hears/');
        await page.locator('#model-address').press('Enter');
        await page.locator('#talk-ready').waitFor();
        await page.locator('#talk-file').setInputFiles(join(root, 'tests/fixtures/sound/sound.flac'));
      }
      await page.locator('#talk-speed').waitFor();
      await look('talk');
      await page.getByRole('link', { name: 'Cut', exact: true }).click();
      await page.locator('#cut-model').waitFor();
      if (width === 1440) {
        await look('cut-first');
        await page.locator('.need summary').first().click();
        await page.locator('#model-address').fill('fixtures/sam/');
        await page.locator('#model-address').press('Enter');
        await page.locator('#cut-ready').waitFor();
        const buffer = png(90, 60, Buffer.alloc(90 * 60 * 3, 120));
        await page.locator('#cut-file').setInputFiles({ name: 'grey.png', mimeType: 'image/png', buffer });
        await page.locator('#cut-told').filter({ hasText: 'Click on a thing' }).waitFor();
        await page.locator('#cut-picture').press('Enter');
      }
      await page.locator('#cut-save:enabled').waitFor();
      await look('cut');
      await page.getByRole('link', { name: 'Draw', exact: true }).click();
      await page.locator('#draw-model').waitFor();
      if (width === 1440) {
        await look('draw-first');
        await page.locator('.need summary').first().click();
        await page.locator('#model-address').fill('fixtures/flux2_klein/');
        await page.locator('#model-address').press('Enter');
      }
      // This browser has no WebGPU, and the view says so.
      await page.locator('#draw-model-error').waitFor();
      await look('draw');
      await page.getByRole('link', { name: 'Try', exact: true }).click();
      await page.locator('.tokens li').first().waitFor();
      await look('try');
      await page.getByRole('link', { name: 'Benchmark' }).click();
      await page.locator('#benchmark:enabled').waitFor();
      if (width === 1440) {
        await page.locator('#benchmark').click();
        await page.locator('#benchmark-results').waitFor({ timeout: 30_000 });
        await page.locator('#benchmark:enabled').waitFor();
      }
      await look('benchmark');
      await page.getByRole('link', { name: 'Chat', exact: true }).click();
      if (width !== 360) continue;
      await page.getByRole('button', { name: 'Chats' }).click();
      await page.locator('dialog .conversation').first().waitFor();
      await look('chats');
      await page.keyboard.press('Escape');
    }
    assert.deepEqual(faults(logs), []);
    await context.close();
  });
}

test('nothing serious is found where functions are allowed', { timeout: 180_000 }, async () => {
  const { page, context, ready } = await demo.open('?model=calling.gguf', { viewport: { width: 360, height: 740 } });
  await ready();
  await page.locator('#settings').click();
  await page.locator('.schemas summary').click();
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await serious(page), [], colorScheme);
  }
  await page.locator('#functions').focus();
  await page.keyboard.press('Space');
  assert.equal(await page.locator('#functions').isChecked(), true);
  await context.close();
});

test('everything is done by keys: ask, stop, go on, choose, close', { timeout: 180_000 }, async () => {
  const { page, context, ready, idle, answers } = await demo.open(SMALL, { viewport: { width: 1280, height: 800 } });
  await ready();
  const focus = () =>
    page.evaluate(
      () =>
        document.activeElement.id ||
        document.activeElement.getAttribute('aria-label') ||
        document.activeElement.textContent,
    );
  const tabTo = async (name) => {
    for (let i = 0; i < 30; i += 1) {
      if ((await focus()) === name) return;
      await page.keyboard.press('Tab');
    }
    assert.fail(`Tab does not lead to ${name}`);
  };
  await page.waitForFunction(() => document.activeElement?.id === 'prompt');
  await page.keyboard.type('What is a vector?');
  await page.keyboard.press('Enter');
  await answers.first().waitFor();
  await idle();
  assert.equal(await focus(), 'prompt');
  await tabTo('settings');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('dialog')?.contains(document.activeElement));
  await tabTo('setting-max_tokens');
  await page.keyboard.type('4');
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !document.querySelector('dialog') && document.activeElement.id === 'settings');
  await tabTo('Ask again');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /· 4 tokens$/.test(document.querySelector('.speed')?.textContent));
  await tabTo('Edit and ask again');
  await page.keyboard.press('Enter');
  await page.keyboard.type(' And a slice?');
  await page.keyboard.press('Enter');
  await page.waitForFunction(
    () => document.querySelector('.message.user .text')?.textContent === 'What is a vector? And a slice?',
  );
  await idle();
  await page.waitForFunction(() => document.activeElement?.id === 'prompt');
  await context.close();
});

test('an answer is said once, when it is there', { timeout: 180_000 }, async () => {
  const { page, context, ready, ask, answers } = await demo.open(SMALL);
  await ready();
  const live = await page.evaluate(
    () =>
      [...document.querySelectorAll('[aria-live], [role=status], [role=alert], [role=log]')].filter(
        (each) => each.querySelector('#conversation') || each.closest('#conversation'),
      ).length,
  );
  assert.equal(live, 0, 'the conversation itself is not live');
  await page.evaluate(() => {
    globalThis.said = [];
    new MutationObserver(() => said.push(document.getElementById('heard').textContent)).observe(
      document.getElementById('heard'),
      { childList: true, subtree: true, characterData: true },
    );
  });
  await ask('What is a string?');
  const said = await page.evaluate(() => globalThis.said);
  assert.equal(said.length, 1);
  assert.equal(
    said[0].replace(/\s+/g, ''),
    (await page.evaluate(() => document.getElementById('heard').textContent)).replace(/\s+/g, ''),
  );
  assert.ok(said[0].length > 0 && (await answers.last().textContent()).length > 0);
  await context.close();
});

test('the built-in model answers within seconds of opening the page', { timeout: 180_000 }, async () => {
  const { page, context, answers } = await demo.open();
  await page.locator('#questions button:enabled').first().click();
  await page.waitForFunction(
    () => (document.querySelector('.message.assistant .markdown')?.textContent.length ?? 0) > 0,
  );
  const ms = await page.evaluate(() => performance.now());
  console.log(`first words of the first answer after ${Math.round(ms)} ms`);
  assert.ok(ms < 10_000, `${ms} ms`); // 3 s on a machine that does nothing else
  await answers.first().waitFor();
  await context.close();
});
