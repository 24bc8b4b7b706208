// The page's executors against llama.cpp's recorded logits and greedy ids, by the shared list.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { difference } from '../support/logits.mjs';
import { EXECUTORS, atServer, casePages, casesFor, inRoot, launch, mounts, root, startServer } from './harness.mjs';

const json = (path) => JSON.parse(readFileSync(inRoot(path), 'utf8'));
const lists = json('tests/parity/cases.json');

let server, isolatedServer, browser, inPage;
before(async () => {
  const all = { ...mounts, '/tests/': join(root, 'tests') };
  server = await startServer({ mounts: all });
  isolatedServer = await startServer({ mounts: all, isolated: true });
  browser = await launch();
  inPage = casePages(browser, ({ isolated }) => (isolated ? isolatedServer : server));
});
after(async () => {
  await browser?.close();
  await server?.close();
  await isolatedServer?.close();
});

for (const executor of EXECUTORS) {
  const { name, device, build, adapter, isolated } = executor;
  const wanted = casesFor(lists, 'logits', executor);
  test(`cases.json has logits for ${name}`, () => assert.ok(wanted.some(({ skip }) => !skip)));
  for (const testCase of wanted) {
    test(`${name}, ${build}: ${testCase.name}`, { timeout: 600_000, skip: testCase.skip }, async (t) => {
      const expected = json(testCase.expected);
      const found = await inPage(executor, (page) => page.evaluate(async ({ url, ...job }) => {
        const { logitsOf } = await import('/support/logits.mjs');
        const blob = await (await fetch(url)).blob();
        return logitsOf({ base: '/dist', files: [blob], gpu: navigator.gpu, ...job });
      }, {
        url: atServer(testCase.model[0]), device, kv: testCase.kv, activations: testCase.activations, context: testCase.context ?? null,
        prompt: expected.prompt_ids, maxTokens: 8, threads: isolated ? 2 : 1,
      }));
      const apart = difference(found.logits, expected.logits);
      t.diagnostic(`${apart.toExponential(2)} of the largest, ${found.info.adapter}`);
      assert.equal(found.error, undefined);
      assert.match(found.info.adapter, adapter);
      assert.deepEqual([found.info.device, found.info.kv, found.info.activations], [device, testCase.kv, testCase.activations]);
      assert.ok(apart <= testCase.tolerance, `${apart} of the largest, ${testCase.tolerance} allowed`);
      assert.ok(found.tokens.length > 0);
      assert.deepEqual(found.tokens, expected.greedy.slice(0, found.tokens.length));
      // Recorded with end tokens obeyed: it goes no further than the one that it ends with.
      if (expected.answer) assert.deepEqual(found.tokens, expected.answer);
    });
  }
}
