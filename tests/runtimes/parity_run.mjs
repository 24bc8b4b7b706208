// Runs in Deno and in Node (npm `webgpu`): takes a job as JSON in its last argument, answers the
// questions on WebGPU, prints one line of JSON: what differs, `engine.info()`, what a token cost
// and what was left on the GPU. Or, for a job with `logits`, what `logitsOf` answers.

import { readFileSync } from 'node:fs';
import process from 'node:process';
import { Engine } from '../../crates/rlx-wasm/js/dist/index.js';
import { countGpu } from '../support/count_gpu.mjs';
import { logitsOf } from '../support/logits.mjs';
import { costOfToken, differences } from '../support/parity.mjs';

const { model, questions, maxTokens, logits } = JSON.parse(process.argv.at(-1));
// Kept reachable: Dawn's Node binding frees a device under a pending promise otherwise.
globalThis.rlxTestGpu = globalThis.navigator?.gpu ?? (await import('webgpu')).create([]);
const { gpu, counts } = countGpu(globalThis.rlxTestGpu);
if (logits) {
  const base = new URL('../../crates/rlx-wasm/js/dist', import.meta.url).href;
  const blob = new Blob([readFileSync(model[0])]);
  console.log(JSON.stringify(await logitsOf({ base, files: [blob], device: 'webgpu', gpu, ...logits })));
  process.exit(0);
}
const engine = await Engine.load({ model: model.map((path) => new Blob([readFileSync(path)])), device: 'webgpu', gpu });
const found = await differences(engine, questions, maxTokens);
const info = engine.info();
const cost = await costOfToken(engine, counts, questions[0].messages);
engine.dispose();
await new Promise((resolve) => setTimeout(resolve));
console.log(JSON.stringify({ found, info, cost, liveBytes: counts.liveBytes }));
process.exit(0);
