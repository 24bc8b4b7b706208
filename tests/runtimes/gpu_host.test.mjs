// The GPU host in Node (npm `webgpu`, Dawn) and in Deno (wgpu).

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { cases } from '../support/gpu_host_cases.mjs';

// Dawn refuses lavapipe; Chromium's software driver it takes.
const swiftshader = '/usr/lib/chromium/vk_swiftshader_icd.json';
if (existsSync(swiftshader)) process.env.VK_DRIVER_FILES ??= swiftshader;

const { create } = await import('webgpu');
const { GpuHost } = await import('../../crates/rlx-wasm/js/dist/gpu_host.js');
// Kept reachable: Dawn's Node binding frees a device under a pending promise otherwise.
globalThis.rlxTestGpu = create([]);

for (const [name, run] of Object.entries(cases)) {
  test(`Node: ${name}`, () => run({ GpuHost, gpu: globalThis.rlxTestGpu }));
}

const script = fileURLToPath(new URL('./gpu_host_deno.mjs', import.meta.url));
const { VK_DRIVER_FILES: _, ...env } = process.env; // Deno takes lavapipe, the system's driver
const deno = spawnSync('npx', ['deno', 'run', '-A', script], { encoding: 'utf8', env });
const results = deno.status === 0 ? JSON.parse(deno.stdout.trim().split('\n').at(-1)) : {};

test('Deno runs every case', () => {
  assert.equal(deno.status, 0, deno.stderr);
  assert.deepEqual(Object.keys(results), Object.keys(cases));
});
for (const name of Object.keys(cases)) {
  test(`Deno: ${name}`, () => assert.equal(results[name], 'ok'));
}
