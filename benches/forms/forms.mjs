// What a form costs: decode of a GGUF file in Node, free and held to forms, in turns, as JSON.
//
//   node benches/forms/forms.mjs FILE... [--device cpu|webgpu] [--tokens N] [--repeat N] [--activations f32|int8]
//
// Needs `npm run build`; `webgpu` is Dawn (npm's `webgpu`, or the one that DAWN names).

import { openAsBlob } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus } from 'node:os';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { Engine } from '../../crates/rlx-wasm/js/dist/index.js';

const { values, positionals: files } = parseArgs({
  allowPositionals: true,
  options: { device: { type: 'string', default: 'cpu' }, tokens: { type: 'string', default: '200' }, repeat: { type: 'string', default: '9' }, activations: { type: 'string' } },
});
const { device, activations } = values;
let gpu;
if (device === 'webgpu') {
  const { create, globals } = process.env.DAWN ? createRequire(import.meta.url)(process.env.DAWN) : await import('webgpu');
  Object.assign(globalThis, globals);
  gpu = globalThis.rlxBenchGpu = create([]); // kept reachable: the binding frees a device under a promise otherwise
}
const engine = await Engine.load({ model: await Promise.all(files.map((file) => openAsBlob(file))), device, gpu, activations, contextLength: 1024 });
const lark = (schema) => ({ grammar: { syntax: 'lark', definition: `start: %json ${JSON.stringify(schema)}` } });
const FORMS = {
  free: {},
  // A mask that leaves nearly nothing out: what waiting for each token costs.
  'any text': { grammar: { syntax: 'regex', definition: '(.|\\n)*' } },
  'a JSON object': lark({ type: 'object' }),
  'JSON of a schema': lark({
    type: 'object', properties: { title: { type: 'string' }, tags: { type: 'array', items: { type: 'string' } }, year: { type: 'integer' } }, required: ['title', 'tags', 'year'], additionalProperties: false,
  }),
};

/** Tokens a second after the first, of an answer that has all its tokens; undefined if it ended before. */
async function rate(form, seed) {
  const max_tokens = Number(values.tokens);
  const { usage } = await engine.completions.create({ prompt: 'The method', max_tokens, temperature: 1, seed, ...form });
  return usage.completion_tokens === max_tokens ? engine.info().decodeTokensPerSecond : undefined;
}

const rates = Object.fromEntries(Object.keys(FORMS).map((name) => [name, []]));
const began = performance.now();
await rate(FORMS['a JSON object'], 1);
const first_s = (performance.now() - began) / 1e3;
for (const form of Object.values(FORMS)) await rate(form, 1);
for (let seed = 0; Object.values(rates).some((list) => list.length < Number(values.repeat)) && seed < 20 * Number(values.repeat); seed++) {
  for (const [name, form] of Object.entries(FORMS)) {
    const measured = rates[name].length < Number(values.repeat) ? await rate(form, seed) : undefined;
    if (measured !== undefined) rates[name].push(measured);
  }
}
const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const { adapter } = engine.info();
const rows = Object.fromEntries(Object.entries(rates).map(([name, list]) => [name, { decode_tokens_per_s: median(list), share: median(list) / median(rates.free), all: list }]));
console.log(JSON.stringify({ files: files.map((file) => basename(file)), device, adapter, processor: cpus()[0].model, tokens: Number(values.tokens), first_answer_s: first_s, rows }, null, 2));
await engine.dispose();
process.exit(0);
