// A model that calls the demo's functions: its calls and their results in view, stopped, stored, exported and imported.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { callingModel, calls, TOLD } from '../support/calling_model.mjs';
import { faults, SMALL, startDemo } from './demo_pages.mjs';

const files = {
  '/sum.gguf': callingModel({ asked: calls('calculate', { expression: '6 * 7' }), told: ['It is ', 'forty-two.'] }),
  '/document.gguf': callingModel({ asked: calls('read_document', { query: 'heron' }), told: ['It stands.'] }),
  // A function that is not here, whose result the model tells all the same.
  '/weather.gguf': callingModel(),
  '/round.gguf': callingModel({
    asked: calls('calculate', { expression: '1' }),
    told: ['On ', 'and ', 'on ', 'and '],
    context: 30_000,
  }),
};

let demo;
before(async () => {
  demo = await startDemo({ files });
});
after(() => demo?.close());

/** A page with a model that may use functions. */
async function open(model, options) {
  const opened = await demo.open(`?model=${model}`, options);
  const { page, ready } = opened;
  await ready();
  await page.locator('#settings').click();
  await page.getByLabel('Let the model use functions').check();
  await page.keyboard.press('Escape');
  const exported = async () => {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export this chat' }).click(),
    ]);
    return readFileSync(await download.path(), 'utf8');
  };
  const choose = (text) =>
    page
      .locator('#import')
      .setInputFiles({ name: 'chats.json', mimeType: 'application/json', buffer: Buffer.from(text) });
  const answered = async (question, answer) => {
    await page.locator('#prompt').fill(question);
    await page.locator('#prompt').press('Enter');
    await opened.answers.filter({ hasText: answer }).first().waitFor();
    await opened.idle();
  };
  return { ...opened, exported, choose, answered, call: page.locator('.call') };
}

test(
  'a call is shown with its result, heard once as an answer, stored, and exchanged',
  { timeout: 60_000 },
  async () => {
    const { page, context, logs, call, answers, answered, exported, choose, told } = await open('sum.gguf');
    await page.evaluate(() => {
      globalThis.said = [];
      const heard = document.getElementById('heard');
      new MutationObserver(() => said.push(heard.textContent)).observe(heard, {
        childList: true,
        subtree: true,
        characterData: true,
      });
    });
    await answered('What is 6 times 7?', 'It is forty-two.');
    assert.deepEqual(await page.evaluate(() => said), ['It is forty-two.']);
    assert.equal(await call.count(), 1);
    assert.equal(await call.locator('summary').innerText(), 'calculate 6 * 7 → 42');
    await call.locator('summary').click();
    assert.deepEqual(await call.locator('pre').allInnerTexts(), ['{"expression":"6 * 7"}', '42']);
    // One answer has one set of buttons, and asking again begins with the first call.
    assert.equal(await page.getByRole('button', { name: 'Ask again', exact: true }).count(), 1);
    await page.getByRole('button', { name: 'Ask again', exact: true }).click();
    await page.waitForFunction(() => !document.getElementById('stop'));
    assert.equal(await call.count(), 1);

    const text = await exported();
    const [{ functions, messages }] = JSON.parse(text).conversations;
    assert.equal(functions, true);
    assert.deepEqual(messages[1].calls, [{ name: 'calculate', arguments: '{"expression":"6 * 7"}', result: '42' }]);
    await choose(text.replace('forty-two', 'imported').replace('What is 6', 'Imported, what is 6'));
    await told('Imported 1 chat.');
    await choose(text.replaceAll('{\\"expression\\":\\"6 * 7\\"}', 'x'));
    await told(/^Nothing was imported. A call of message 2 .* not a JSON object/);
    await page.reload();
    await page.locator('.conversation .title').nth(1).waitFor();
    await page.locator('.conversation .title').first().click();
    await call.first().waitFor();
    assert.equal(await answers.count(), 1);
    await page.waitForFunction(() => document.getElementById('send')?.disabled === false);
    await answered('And again?', 'It is forty-two.');
    assert.equal(await call.count(), 2);
    assert.deepEqual(faults(logs), []);
    await context.close();
  },
);

test('a document of the chat is read; its schema is told in the settings', { timeout: 60_000 }, async () => {
  const { page, context, call, answered } = await open('document.gguf');
  const text = `${'Nothing here.\n'.repeat(2000)}The heron stands on one leg.\n`;
  await page.locator('#attach').setInputFiles({ name: 'birds.txt', mimeType: 'text/plain', buffer: Buffer.from(text) });
  await page.locator('#attached li').waitFor();
  await answered('What does the heron do?', 'It stands.');
  await call.locator('summary').click();
  assert.match(
    await call.locator('pre').nth(1).innerText(),
    /^birds.txt, part \d+ of \d+:\n[^]*The heron stands on one leg.\s*$/,
  );
  await page.locator('#settings').click();
  await page.getByText('What the model is told of them').click();
  const tools = JSON.parse(await page.locator('.schemas pre').innerText());
  assert.deepEqual(
    tools.map((tool) => tool.function.name),
    ['calculate', 'read_document', 'current_time'],
  );
  assert.match(tools[1].function.description, /birds.txt/);
  await context.close();
});

test('a function that fails is told to the model, which goes on', { timeout: 60_000 }, async () => {
  const { context, call, answered } = await open('weather.gguf');
  await answered('What is the weather?', TOLD);
  assert.equal(await call.locator('summary').innerText(), 'weather Bern failed');
  await call.locator('summary').click();
  assert.match(await call.locator('pre').nth(1).innerText(), /^Error: There is no function “weather”/);
  await context.close();
});

test(
  'Stop ends an answer behind its calls, and the next question goes on from there',
  { timeout: 60_000 },
  async () => {
    const { page, context, call, answers, idle } = await open('round.gguf');
    await page.locator('#prompt').fill('Go on.');
    await page.locator('#prompt').press('Enter');
    await answers.filter({ hasText: 'On and on and' }).waitFor();
    await page.locator('#stop').click();
    await idle();
    assert.equal(await page.locator('.remark').innerText(), 'Stopped.');
    assert.equal(await call.count(), 1);
    assert.equal(await page.locator('#send').isEnabled(), true);
    await context.close();
  },
);

test('a model that takes no functions has no switch, and a sentence instead', { timeout: 60_000 }, async () => {
  const { page, context, ready } = await demo.open(SMALL);
  await ready();
  await page.locator('#settings').click();
  assert.match(await page.locator('#no-functions').innerText(), /uses no functions.*Qwen3 0.6B and Llama 3.2 1B/);
  assert.equal(await page.locator('#functions').count(), 0);
  await context.close();
});
