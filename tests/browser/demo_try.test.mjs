// The demo's small tasks: an answer of a form, and a text in tokens.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { faults, SMALL, startDemo } from './demo_pages.mjs';

let demo, page, logs;
before(async () => {
  demo = await startDemo();
  ({ page, logs } = await demo.open(`${SMALL}#try`, { viewport: { width: 1280, height: 900 } }));
  page.setDefaultTimeout(30_000); // the module that holds answers to a form is compiled first
  await page.waitForFunction(() => document.getElementById('form-answer')?.disabled === false);
});
after(() => demo?.close());

const ended = () => page.locator('#form-answer').waitFor();
const told = (text) => page.locator('.part [role=status]').filter({ hasText: text }).waitFor();

test('an answer has the form that is asked for', async () => {
  await page.getByRole('button', { name: 'Yes or no' }).click();
  await page.locator('#form-answer').click();
  await told('It is JSON of this form.');
  const answer = JSON.parse(await page.locator('#form-written').textContent());
  assert.deepEqual(Object.keys(answer), ['answer', 'sure']);
  assert.equal(typeof answer.answer, 'boolean');
  assert.ok(Number.isInteger(answer.sure) && answer.sure >= 0 && answer.sure <= 100);
});

test('a schema that is none is told, and a long answer is stopped', async () => {
  await page.locator('#form-schema').fill('{');
  await page.locator('#form-answer').click();
  assert.match(await page.locator('#form-error').textContent(), /not JSON/);
  await page.locator('#form-schema').fill('{"type": "nothing"}');
  await page.locator('#form-answer').click();
  await page.waitForFunction(() => /nothing/.test(document.getElementById('form-error')?.textContent));
  await ended();
  await page.locator('#form-schema').fill('{"type": "array", "items": {"enum": ["word"]}, "minItems": 300}');
  // In the page: the small model would have written all before a click comes from here.
  await page.evaluate(() => {
    new MutationObserver(() => {
      if (document.getElementById('form-written')?.textContent.includes('word'))
        document.getElementById('form-stop')?.click();
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await page.locator('#form-answer').click();
  await told('Stopped before its end.');
  await ended();
});

test("a text is shown in the model's tokens, which spell it", async () => {
  const text = 'let mut v = vec![1];\n\tv.push(2)';
  await page.locator('#tokens-text').fill(text);
  await page.waitForFunction(
    (letters) => document.getElementById('tokens-count').textContent.endsWith(`${letters} characters`),
    text.length,
  );
  const pieces = await page.locator('.tokens bdi').allTextContents();
  assert.equal(pieces.join('').replaceAll('·', ' ').replaceAll('↵', '\n').replaceAll('→', '\t'), text);
  assert.match(await page.locator('#tokens-count').textContent(), new RegExp(`^${pieces.length} tokens`));
  const ids = await page.locator('.tokens small').allTextContents();
  assert.ok(ids.every((id) => /^\d+$/.test(id)));
  await page.locator('#tokens-text').fill('word '.repeat(900));
  await page.waitForFunction(() => /the first 500 are shown/.test(document.getElementById('tokens-count').textContent));
  assert.equal(await page.locator('.tokens li').count(), 500);
  assert.deepEqual(faults(logs), []);
});
