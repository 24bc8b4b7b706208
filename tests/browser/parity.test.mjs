// The page's executors against recorded answers, by the list that every executor shares.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { questionsOf, tokensOf } from '../support/parity.mjs';
import { EXECUTORS, atServer, casePages, casesFor, inRoot, launch, mounts, rlxBinary, root, startServer } from './harness.mjs';

const json = (path) => JSON.parse(readFileSync(join(root, path), 'utf8'));
const lists = json('tests/parity/cases.json');

let server, isolatedServer, browser, inPage;
before(async () => {
  const all = { ...mounts, '/models/': join(root, 'models'), '/tests/': join(root, 'tests') };
  server = await startServer({ mounts: all });
  isolatedServer = await startServer({ mounts: all, isolated: true });
  browser = await launch();
  inPage = casePages(browser, serverOf);
});
after(async () => {
  await browser?.close();
  await server?.close();
  await isolatedServer?.close();
});

const serverOf = ({ isolated }) => (isolated ? isolatedServer : server);

/** Loads the case's model in a page and asks; `info` is from after the last answer. */
function run(testCase, executor, questions, maxTokens) {
  const { device } = executor;
  // What `openPage` changes in a page, and what is counted there, is not in a worker.
  const worker = device === 'cpu' && executor.page?.relaxedSimd !== false;
  return inPage(executor, (page) => page.evaluate(async ({ model, device, kv, worker, questions, maxTokens }) => {
    const { Engine } = await import('/dist/index.js');
    const { differences, costOfToken } = await import('/support/parity.mjs');
    const { countGpu } = await import('/support/count_gpu.mjs');
    const counted = device === 'webgpu' ? countGpu(navigator.gpu) : undefined;
    const engine = await Engine.load({ model, device, kv, threads: 2, cache: false, worker, ...(counted && { gpu: counted.gpu }) });
    const found = await differences(engine, questions, maxTokens);
    const info = engine.info();
    const cost = counted && await costOfToken(engine, counted.counts, questions[0].messages);
    engine.dispose();
    await new Promise((resolve) => setTimeout(resolve)); // a pending promise may hold the buffers
    return { found, info, cost, liveBytes: counted?.counts.liveBytes };
  }, { model: testCase.model.map(atServer), device, kv: testCase.kv, worker, questions, maxTokens }));
}

/** The program in the page is the one that the command line prints for the same target. */
function assertSameProgram(testCase, { target, kv, activations, contextLength, fingerprint, dispatchesPerToken, device, weightBytes }) {
  for (const phase of ['prefill', 'decode']) {
    const printed = execFileSync(rlxBinary(), [
      'inspect', inRoot(testCase.model[0]), '--stage', 'lir', '--phase', phase, '--json',
      '--target', target, '--kv', kv, '--activations', activations, '--context', `${contextLength}`,
    ], { encoding: 'utf8' });
    const lir = JSON.parse(printed);
    assert.equal(fingerprint[phase], lir.fingerprint, `${phase} for ${target}`);
    assert.equal(weightBytes, lir.weight_bytes);
    if (phase === 'decode' && device === 'webgpu') assert.equal(dispatchesPerToken, lir.steps);
  }
}

const DEFAULTS = { cpu: ['f16', 'int8'], webgpu: ['f16', 'int16/int8'] };

for (const executor of EXECUTORS) {
  const { name, device, build, adapter } = executor;
  const wanted = casesFor(lists, 'greedy', executor);
  test(`cases.json has cases for ${name}`, () => assert.ok(wanted.some(({ skip }) => !skip)));
  for (const testCase of wanted) {
    test(`${name}, ${build}: ${testCase.name} answers as recorded`, { timeout: 900_000, skip: testCase.skip }, async (t) => {
      const expected = json(testCase.expected);
      const questions = questionsOf(testCase, expected, name);
      const start = performance.now();
      const { found, info, cost, liveBytes } = await run(testCase, executor, questions, tokensOf(testCase, expected, name));
      t.diagnostic(`${questions.length} questions in ${((performance.now() - start) / 1000).toFixed(1)} s, ${info.adapter}, ${info.decodeTokensPerSecond?.toFixed(1)} tokens/s`);
      assert.deepEqual(found, []);
      assert.equal(info.device, device);
      assert.match(info.adapter, adapter);
      assert.equal(info.fallbackReason, null);
      const [kv, activations] = DEFAULTS[device];
      assert.deepEqual([info.kv, info.activations], [testCase.kv ?? kv, activations]);
      const { asked } = serverOf(executor);
      assert.deepEqual(asked('.wasm').map(({ path }) => path), [`/dist/${build}`], 'a page downloads one build');
      assertSameProgram(testCase, info);
      if (device === 'webgpu') {
        assert.deepEqual(cost, { dispatches: info.dispatchesPerToken, submits: 1, mappedBytes: 4 });
        assert.equal(liveBytes, 0, 'dispose destroys every buffer');
      }
    });
  }
}
