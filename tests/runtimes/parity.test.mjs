// WebGPU outside browsers against recorded answers, by the list that every executor shares: Deno
// (wgpu on the system's Vulkan driver) and Node (Dawn on Chromium's software driver).

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { difference } from '../support/logits.mjs';
import { questionsOf, runsOn, tokensOf } from '../support/parity.mjs';

const inRoot = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const json = (path) => JSON.parse(readFileSync(inRoot(path), 'utf8'));
const script = inRoot('tests/runtimes/parity_run.mjs');
const { cases } = json('tests/parity/cases.json');
const { VK_DRIVER_FILES: _, ...env } = process.env; // Deno takes lavapipe, the system's driver

const RUNTIMES = [
  { name: 'deno-webgpu', command: ['npx', 'deno', 'run', '-A', script], env, adapter: /llvmpipe/i },
  {
    name: 'node-webgpu',
    command: [process.execPath, script],
    env: { ...env, VK_DRIVER_FILES: '/usr/lib/chromium/vk_swiftshader_icd.json' }, // Dawn refuses lavapipe
    adapter: /swiftshader/i,
  },
];

/** What the script prints for a job. */
function run(command, env, job) {
  const [program, ...args] = command;
  const { status, stdout, stderr } = spawnSync(program, [...args, JSON.stringify(job)], { encoding: 'utf8', env });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

for (const { name, command, env, adapter } of RUNTIMES) {
  for (const testCase of cases.filter((one) => one.kind === 'logits' && runsOn(one, name))) {
    test(`${name}: ${testCase.name}`, { timeout: 240_000 }, (t) => {
      const { kv, activations, tolerance } = testCase;
      const expected = json(testCase.expected);
      const job = { model: testCase.model.map(inRoot), logits: { kv, activations, prompt: expected.prompt_ids, maxTokens: 8 } };
      const { logits, tokens, info, error } = run(command, env, job);
      const apart = difference(logits, expected.logits);
      t.diagnostic(`${apart.toExponential(2)} of the largest, ${info.adapter}`);
      assert.equal(error, undefined);
      assert.match(info.adapter, adapter);
      assert.ok(apart <= tolerance, `${apart} of the largest, ${tolerance} allowed`);
      assert.ok(tokens.length > 0);
      assert.deepEqual(tokens, expected.greedy.slice(0, tokens.length));
    });
  }
  const wanted = cases.filter((one) => one.kind === 'greedy' && runsOn(one, name));
  test(`cases.json has cases for ${name}`, () => assert.ok(wanted.length > 0));
  for (const testCase of wanted) {
    test(`${name}: ${testCase.name} answers as recorded`, { timeout: 900_000 }, (t) => {
      const expected = json(testCase.expected);
      const questions = questionsOf(testCase, expected, name);
      const job = { model: testCase.model.map(inRoot), questions, maxTokens: tokensOf(testCase, expected, name) };
      const start = performance.now();
      const { found, info, cost, liveBytes } = run(command, env, job);
      t.diagnostic(`${questions.length} questions in ${((performance.now() - start) / 1000).toFixed(1)} s, ${info.adapter}`);
      assert.deepEqual(found, []);
      assert.equal(info.device, 'webgpu');
      assert.match(info.adapter, adapter);
      assert.equal(info.fallbackReason, null);
      assert.deepEqual(cost, { dispatches: info.dispatchesPerToken, submits: 1, mappedBytes: 4 });
      assert.equal(liveBytes, 0, 'dispose destroys every buffer');
    });
  }
}
