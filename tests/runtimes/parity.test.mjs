// WebGPU in Deno (wgpu on the system's Vulkan driver) against recorded answers, by the list that
// every executor shares.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { questionsOf } from '../support/parity.mjs';

const inRoot = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const json = (path) => JSON.parse(readFileSync(inRoot(path), 'utf8'));
const script = inRoot('tests/runtimes/parity_deno.mjs');
const { cases } = json('tests/parity/cases.json');
const wanted = cases.filter(({ kind, devices }) => kind === 'greedy' && devices.includes('deno-webgpu'));

test('cases.json has cases for deno-webgpu', () => assert.ok(wanted.length > 0));
for (const testCase of wanted) {
  test(`Deno: ${testCase.name} answers as recorded`, { timeout: 300_000 }, (t) => {
    const expected = json(testCase.expected);
    const questions = questionsOf(testCase, expected, 'deno-webgpu');
    const job = { model: testCase.model.map(inRoot), questions, maxTokens: expected.max_new_tokens };
    const { VK_DRIVER_FILES: _, ...env } = process.env;
    const start = performance.now();
    const deno = spawnSync('npx', ['deno', 'run', '-A', script, JSON.stringify(job)], { encoding: 'utf8', env });
    assert.equal(deno.status, 0, deno.stderr);
    const { found, info } = JSON.parse(deno.stdout.trim().split('\n').at(-1));
    t.diagnostic(`${questions.length} questions in ${((performance.now() - start) / 1000).toFixed(1)} s, ${info.adapter}`);
    assert.deepEqual(found, []);
    assert.equal(info.device, 'webgpu');
    assert.match(info.adapter, /llvmpipe/i);
    assert.equal(info.fallbackReason, null);
  });
}
