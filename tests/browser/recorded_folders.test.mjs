// The page's CPU against what PyTorch recorded of transformers' folders: logits behind a prompt, and greedy tokens, or
// the blocks that a model fills. By the shared list; the folders are not tracked.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { folder, recorded, textOf } from '../support/folders.mjs';
import { difference } from '../support/logits.mjs';
import { EXECUTORS, casesFor, inRoot, launch, mounts, openPage, root, startServer } from './harness.mjs';

const lists = JSON.parse(readFileSync(join(root, 'tests/parity/cases.json'), 'utf8'));
const executor = EXECUTORS.find(({ name, build }) => name === 'page-cpu' && build === 'rlx.wasm');
/** As the records say: of the largest of a tensor. */
const TOLERANCE = 2e-4;

const files = {};
let server, browser, page;
before(async () => {
  server = await startServer({ mounts, files });
  browser = await launch({ webgpu: false });
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`, executor.page));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** Runs the prompt; the bytes of the files come by addresses of the test's own. */
const run = (names, path, prompt) => page.evaluate(async ({ names, path, prompt }) => {
  const { logitsOf } = await import('/support/logits.mjs');
  const files = await Promise.all(names.map(async (name) => new File([await (await fetch(path + name)).blob()], name)));
  return logitsOf({ base: '/dist', files, device: 'cpu', kv: 'f32', activations: 'f32', context: 64, prompt, maxTokens: 16 });
}, { names, path, prompt });

/** LLaDA 2's first recorded run, as a chat asks for it. */
const fill = (model, content, how) => page.evaluate(async ({ model, content, how }) => {
  const { Engine } = await import('/dist/index.js');
  const engine = await Engine.load({ model, device: 'cpu', cache: false, blockLength: 8, contextLength: 64, activations: 'f32' });
  const answer = await engine.chat.completions.create({ messages: [{ role: 'user', content }], temperature: 0, ...how });
  engine.dispose();
  return answer.choices[0].message.content;
}, { model, content, how });

const wanted = casesFor(lists, 'verify', executor);
test('cases.json has folders for the page', () => assert.ok(wanted.length > 0));
for (const { name, folder: at, skip } of wanted) {
  test(`${name}: as recorded`, { skip }, async (t) => {
    const [own, record] = [folder(inRoot(at)), recorded(inRoot(at))];
    const path = `/${at.split('/').at(-1)}/`;
    for (const [file, bytes] of Object.entries(own)) files[path + file] = bytes;
    const prompt = record('in.prompt_ids');
    if (record('out.sampled')) {
      const answer = await fill(path, textOf(prompt), { steps: 5, threshold: 0.55, max_post_steps: 0, max_tokens: 27 });
      assert.equal(answer, textOf(record('out.sampled').slice(prompt.length)));
      return;
    }
    const found = await run(Object.keys(own), path, prompt);
    assert.match(found.info.adapter, executor.adapter);
    const apart = difference(found.logits, record('out.step_logits').slice(0, found.logits.length));
    t.diagnostic(`${apart.toExponential(2)} of the largest`);
    assert.ok(apart <= TOLERANCE, `${apart} of the largest, ${TOLERANCE} allowed`);
    assert.ok(found.tokens.length > 0);
    // Recorded without regard to end tokens: an answer goes no further than one.
    assert.deepEqual(found.tokens, record('out.greedy').slice(0, found.tokens.length));
  });
}
