// Conversations of the demo: kept, renamed, deleted, exported, imported; questions edited and asked again; settings.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { faults, SMALL, startDemo } from './demo_pages.mjs';

let demo, page, logs, ready, ask, answers, told;
before(async () => {
  demo = await startDemo();
  ({ page, logs, ready, ask, answers, told } = await demo.open(SMALL, {
    viewport: { width: 1280, height: 800 },
    permissions: ['clipboard-read', 'clipboard-write'],
  }));
  await ready();
});
after(() => demo?.close());

const titles = () => page.locator('.conversation .title').allTextContents();
const set = async (name, value) => {
  await page.locator('#settings').click();
  await page.locator(`#${name}`).fill(value);
  await page.keyboard.press('Escape');
};
const exported = async (button) => {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: button }).click(),
  ]);
  return JSON.parse(readFileSync(await download.path(), 'utf8'));
};
const choose = (text) =>
  page
    .locator('#import')
    .setInputFiles({ name: 'chats.json', mimeType: 'application/json', buffer: Buffer.from(text) });

test(
  'settings reach the engine: equal seeds give equal answers, and an answer is as long as it may be',
  { timeout: 60_000 },
  async () => {
    await set('setting-max_tokens', '16');
    await set('setting-temperature', '2');
    await set('setting-seed', '1');
    await ask('Explain lifetimes with an example');
    const first = await answers.last().textContent();
    assert.equal(
      await page.locator('.remark').last().textContent(),
      'It has the longest length that the settings allow.',
    );
    assert.match(await page.locator('.speed').last().textContent(), /· 16 tokens$/);
    await page.getByRole('button', { name: 'Ask again', exact: true }).click();
    await page.waitForFunction(() => !document.getElementById('stop'));
    assert.equal(await answers.last().textContent(), first);
    const others = new Set();
    for (const seed of ['2', '3', '8']) {
      await set('setting-seed', seed);
      await page.getByRole('button', { name: 'Ask again', exact: true }).click();
      await page.waitForFunction(() => !document.getElementById('stop'));
      others.add(await answers.last().textContent());
    }
    assert.ok(
      [...others].some((text) => text !== first),
      `each seed gives ${first}`,
    );
    assert.equal(await page.locator('.message').count(), 2);
  },
);

test('a value that a setting cannot have is refused with a sentence, and not taken', async () => {
  await page.locator('#settings').click();
  await page.locator('#setting-temperature').fill('3');
  assert.equal(await page.locator('#help-temperature').textContent(), 'Temperature is from 0 to 2.');
  await page.locator('#setting-temperature').fill('0');
  await page.keyboard.press('Escape');
  const {
    conversations: [{ settings }],
  } = await exported('Export this chat');
  assert.deepEqual(settings, { max_tokens: 16, temperature: 0, seed: 8 });
});

test('a question can be changed: what was behind it is dropped', { timeout: 60_000 }, async () => {
  await ask('And a vector?');
  assert.equal(await page.locator('.message').count(), 4);
  await page.locator('.message.user').first().hover();
  await page.getByRole('button', { name: 'Edit and ask again' }).first().click();
  await page.getByLabel('Change the question').fill('What is a string?');
  await page.keyboard.press('Enter');
  await page.waitForFunction(
    () => document.querySelectorAll('.message').length === 2 && !document.getElementById('stop'),
  );
  assert.equal(await page.locator('.message.user .text').textContent(), 'What is a string?');
});

test('an answer is copied as it was written', async () => {
  await page.getByRole('button', { name: 'Copy answer' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  const {
    conversations: [{ messages }],
  } = await exported('Export this chat');
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), messages[1].text);
});

test('conversations are kept over a reload, with their settings', { timeout: 60_000 }, async () => {
  await page.locator('#new-chat').click();
  await set('system', 'Be short.');
  await ask('Second question');
  const text = await answers.last().textContent();
  await page.reload();
  await ready();
  assert.deepEqual(await titles(), ['Second question', 'What is a string?']);
  assert.equal(await page.locator('#welcome').isVisible(), true);
  await page.locator('.conversation .title').first().click();
  assert.equal(await answers.last().textContent(), text);
  const {
    conversations: [{ system, settings, model }],
  } = await exported('Export this chat');
  assert.deepEqual(
    { system, settings, model },
    { system: 'Be short.', settings: { max_tokens: 16, temperature: 0, seed: 8 }, model: 'rustdoc-2m-q4_k_m' },
  );
});

test('a conversation is renamed, deleted, and comes back', async () => {
  await page.getByRole('button', { name: 'Rename “Second question”' }).click();
  await page.getByLabel('Title').fill('Renamed');
  await page.keyboard.press('Enter');
  assert.deepEqual(await titles(), ['Renamed', 'What is a string?']);
  await page.getByRole('button', { name: 'Delete “Renamed”' }).click();
  assert.deepEqual(await titles(), ['What is a string?']);
  await page.getByRole('button', { name: 'Undo' }).click();
  assert.deepEqual(await titles(), ['Renamed', 'What is a string?']);
});

test('what was exported can be imported by another visitor', { timeout: 60_000 }, async () => {
  const file = await exported('Export all');
  assert.deepEqual(
    file.conversations.map(({ title }) => title),
    ['Renamed', 'What is a string?'],
  );
  for (const title of ['Renamed', 'What is a string?']) {
    await page.getByRole('button', { name: `Delete “${title}”` }).click();
  }
  assert.deepEqual(await titles(), []);
  await choose(JSON.stringify(file));
  await told('Imported 2 chats.');
  assert.deepEqual(await titles(), ['Renamed', 'What is a string?']);
  await page.reload();
  await ready();
  assert.deepEqual(await titles(), ['Renamed', 'What is a string?']);
});

test('a file that is not conversations is refused with a sentence', async () => {
  await choose('{"format":"other"}');
  await told('Nothing was imported. The file was not exported by this page.');
  await choose(
    JSON.stringify({
      format: 'rlx-conversations',
      version: 1,
      conversations: [{ title: 'x', messages: [{ role: 'system', text: '' }] }],
    }),
  );
  await told('Nothing was imported. Message 1 of conversation 1 is by neither the user nor the assistant.');
  assert.deepEqual(await titles(), ['Renamed', 'What is a string?']);
});

test('text files go with a question, and files that do not fit are told', { timeout: 60_000 }, async () => {
  const attach = (name, text) =>
    page.locator('#attach').setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });
  await page.locator('#new-chat').click();
  await attach('picture.bin', '\0\x01');
  await told('“picture.bin” is not a text file.');
  await attach('long.txt', 'word '.repeat(20_000));
  await told('“long.txt” is too long');
  await attach('notes.txt', 'A note.\n');
  assert.match(await page.locator('#attached').textContent(), /notes\.txt/);
  await ask('What does it say?');
  assert.equal(await page.locator('#attached').count(), 0);
  assert.match(await page.locator('.message.user .chips').textContent(), /notes\.txt/);
  const {
    conversations: [{ messages }],
  } = await exported('Export this chat');
  assert.deepEqual(messages[0].attachments, [{ name: 'notes.txt', text: 'A note.\n' }]);
});

test('the console has no error', () => assert.deepEqual(faults(logs), []));
