// The page's executors against what PyTorch recorded of transformers' folders: logits behind a prompt, and greedy
// tokens, or the blocks that a model fills. By the shared list; the folders are not tracked.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { folder, recorded, textOf } from '../support/folders.mjs';
import { difference } from '../support/logits.mjs';
import { EXECUTORS, casesFor, inRoot, launch, mounts, openPage, root, startServer, withLogs } from './harness.mjs';

const lists = JSON.parse(readFileSync(join(root, 'tests/parity/cases.json'), 'utf8'));
/** One build for the CPU: what builds and threads change is for others to compare. */
const executors = EXECUTORS.filter(({ name, build }) => build === (name === 'page-cpu' ? 'rlx.wasm' : 'rlx-relaxed.wasm'));
/** As the records say: of the largest of a tensor. */
const TOLERANCE = 2e-4;

const files = {};
let server, browser;
const pages = new Map();
/** One page for all cases of an executor. */
async function inPage({ name, page: options }, work) {
  if (!pages.has(name)) pages.set(name, await openPage(browser, `${server.url}/pages/empty.html`, options));
  return withLogs(pages.get(name), work);
}
before(async () => {
  server = await startServer({ mounts, files });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** Runs the prompt of a folder with these files at that path. */
const run = (page, { path, names, prompt, device }) => page.evaluate(async ({ path, names, prompt, device }) => {
  const { logitsOf } = await import('/support/logits.mjs');
  const files = await Promise.all(names.map(async (name) => new File([await (await fetch(path + name)).blob()], name)));
  return logitsOf({ base: '/dist', files, device, gpu: navigator.gpu, kv: 'f32', activations: 'f32', context: 64, prompt, maxTokens: 16 });
}, { path, names, prompt, device });

/** LLaDA 2's first recorded run, as a chat asks for it. */
const fill = (page, { path, prompt, device }) => page.evaluate(async ({ path, content, device }) => {
  const { Engine } = await import('/dist/index.js');
  const engine = await Engine.load({ model: path, device, cache: false, worker: false, blockLength: 8, contextLength: 64, kv: 'f32', activations: 'f32' });
  const messages = [{ role: 'user', content }];
  const answer = await engine.chat.completions.create({ messages, temperature: 0, steps: 5, threshold: 0.55, max_post_steps: 0, max_tokens: 27 });
  const info = engine.info();
  engine.dispose();
  return { text: answer.choices[0].message.content, info };
}, { path, content: textOf(prompt), device });

for (const executor of executors) {
  const { name: on, device, adapter } = executor;
  const wanted = casesFor(lists, 'verify', executor);
  test(`cases.json has folders for ${on}`, () => assert.ok(wanted.length > 0));
  for (const { name, folder: at, skip } of wanted) {
    test(`${on}: ${name}, as recorded`, { timeout: 300_000, skip }, async (t) => {
      const [own, record] = [folder(inRoot(at)), recorded(inRoot(at))];
      const path = `/${at.split('/').at(-1)}/`;
      for (const [file, bytes] of Object.entries(own)) files[path + file] = bytes;
      const job = { path, names: Object.keys(own), prompt: record('in.prompt_ids'), device };
      const filled = record('out.sampled');
      if (filled) {
        const { text, info } = await inPage(executor, (page) => fill(page, job));
        assert.match(info.adapter, adapter);
        assert.equal(text, textOf(filled.slice(job.prompt.length)));
        return;
      }
      const { info, logits, tokens } = await inPage(executor, (page) => run(page, job));
      assert.match(info.adapter, adapter);
      const apart = difference(logits, record('out.step_logits').slice(0, logits.length));
      t.diagnostic(`${apart.toExponential(2)} of the largest`);
      assert.ok(apart <= TOLERANCE, `${apart} of the largest, ${TOLERANCE} allowed`);
      assert.ok(tokens.length > 0);
      // Recorded without regard to end tokens: an answer goes no further than one.
      assert.deepEqual(tokens, record('out.greedy').slice(0, tokens.length));
    });
  }
}
