// The npm package in Node on Dawn, Chrome's WebGPU: prefill and decode of one GGUF file, as JSON.
//
//   node benches/webgpu/dawn.mjs FILE... [--activations f32|int8] [--repeat N] [--context N] [--tune]
//
// Needs `npm run build` and a driver that Dawn takes. DAWN names another `dawn.node` than npm's.

import { openAsBlob } from 'node:fs';
import { createRequire } from 'node:module';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { Engine } from '../../crates/rlx-wasm/js/dist/index.js';

const { values, positionals: files } = parseArgs({
  allowPositionals: true,
  options: { activations: { type: 'string' }, repeat: { type: 'string', default: '5' }, context: { type: 'string', default: '4608' }, tune: { type: 'boolean' }, temperature: { type: 'string', default: '0' } },
});
// Prompt tokens: a synthetic model has a token for each byte, and its template two.
const PROMPTS = [64, 512, 2048, 4096].filter((n) => n + 300 < Number(values.context));
const TOKENS = 128;

const { create, globals } = process.env.DAWN ? createRequire(import.meta.url)(process.env.DAWN) : await import('webgpu');
Object.assign(globalThis, globals);
globalThis.rlxBenchGpu = create([]); // kept reachable: the binding frees a device under a promise otherwise
let start = performance.now();
const { tuning } = values.tune ? await Engine.tune({ gpu: globalThis.rlxBenchGpu }) : {};
const tuned = (performance.now() - start) / 1000;
start = performance.now();
const engine = await Engine.load({
  model: await Promise.all(files.map((file) => openAsBlob(file))), device: 'webgpu', gpu: globalThis.rlxBenchGpu, contextLength: Number(values.context),
  activations: values.activations, tuning,
});
const loaded = (performance.now() - start) / 1000;
const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const rows = [];
for (const prompt of PROMPTS) {
  const prefill = [];
  const decode = [];
  // The first answer is not counted: a page's second question is like those after it.
  for (let i = -1; i < Number(values.repeat); i++) {
    // Another first letter each time: nothing of the last prompt is still in the cache.
    const content = String.fromCharCode(97 + (rows.length * 7 + i + 1) % 26).repeat(prompt - 2);
    const answer = await engine.chat.completions.create({
      messages: [{ role: 'user', content }], max_tokens: TOKENS, temperature: Number(values.temperature), top_k: 40, top_p: 0.95, seed: 1,
    });
    if (answer.usage.prompt_tokens !== prompt) throw new Error(`${answer.usage.prompt_tokens} tokens, not ${prompt}`);
    if (i < 0) continue;
    const info = engine.info();
    prefill.push(info.prefillTokensPerSecond);
    decode.push(info.decodeTokensPerSecond);
    if (i === 0) rows.push({ prompt_tokens: answer.usage.prompt_tokens, tokens: answer.usage.completion_tokens });
  }
  Object.assign(rows.at(-1), { prefill_tokens_per_s: median(prefill), decode_tokens_per_s: median(decode), prefill, decode });
}
const { adapter, features, activations, kv, dispatchesPerToken, tuning: kernels } = engine.info();
console.log(JSON.stringify({ files: files.map((file) => basename(file)), adapter, features, activations, kv, dispatchesPerToken, kernels, tune_s: values.tune ? tuned : null, load_s: loaded, rows }, null, 2));
engine.dispose();
process.exit(0);
