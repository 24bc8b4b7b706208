// What a form costs: decode of a GGUF file in Node, free and held to forms, in turns, as JSON.
//
//   node benches/forms/forms.mjs FILE... [--device cpu|webgpu] [--tokens N] [--repeat N] [--activations f32|int8]
//                                [--package NAME=DIST]... [--seconds N]
//
// Needs `npm run build`; `webgpu` is Dawn (npm's `webgpu`, or the one that DAWN names). With `--package` builds that lie
// elsewhere take turns (folders like `crates/rlx-wasm/js/dist`), and their answers are compared; `--seconds` ends the
// measuring early, with as many repeats as fitted.

import { openAsBlob } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus } from 'node:os';
import { basename, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const { values, positionals: files } = parseArgs({
  allowPositionals: true,
  options: {
    device: { type: 'string', default: 'cpu' }, tokens: { type: 'string', default: '200' }, repeat: { type: 'string', default: '9' }, activations: { type: 'string' },
    package: { type: 'string', multiple: true, default: [`this=${new URL('../../crates/rlx-wasm/js/dist', import.meta.url).pathname}`] }, seconds: { type: 'string', default: 'Infinity' },
  },
});
const { device, activations } = values;
let gpu;
if (device === 'webgpu') {
  const { create, globals } = process.env.DAWN ? createRequire(import.meta.url)(process.env.DAWN) : await import('webgpu');
  Object.assign(globalThis, globals);
  gpu = globalThis.rlxBenchGpu = create([]); // kept reachable: the binding frees a device under a promise otherwise
}
const engines = new Map();
for (const named of values.package) {
  const [name, dist] = named.split('=');
  const { Engine } = await import(pathToFileURL(resolve(dist, 'index.js')));
  engines.set(name, await Engine.load({ model: await Promise.all(files.map((file) => openAsBlob(file))), device, gpu, activations, contextLength: 1024 }));
}
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

/** Tokens a second after the first, undefined if the answer ended before it had all its tokens; and its text. */
async function answer(engine, form, seed) {
  const max_tokens = Number(values.tokens);
  const { usage, choices: [{ text }] } = await engine.completions.create({ prompt: 'The method', max_tokens, temperature: 1, seed, ...form });
  return { rate: usage.completion_tokens === max_tokens ? engine.info().decodeTokensPerSecond : undefined, text };
}

const repeat = Number(values.repeat);
const end = performance.now() + 1e3 * Number(values.seconds);
const first_answer_s = {};
for (const [name, engine] of engines) {
  const began = performance.now();
  await answer(engine, FORMS['a JSON object'], 1);
  first_answer_s[name] = (performance.now() - began) / 1e3;
  for (const form of Object.values(FORMS)) await answer(engine, form, 1);
}
const rates = new Map(Object.keys(FORMS).map((form) => [form, new Map([...engines.keys()].map((name) => [name, []]))]));
const done = () => [...rates.values()].every((by) => [...by.values()].every((list) => list.length >= repeat));
let equal = 0;
const different = [];
for (let seed = 0; !done() && seed < 20 * repeat && performance.now() < end; seed++) {
  for (const [name, form] of Object.entries(FORMS)) {
    const by = rates.get(name);
    if ([...by.values()].every((list) => list.length >= repeat)) continue;
    const texts = new Set();
    // Another one is first each time.
    const order = [...engines.keys()];
    if (seed % 2 > 0) order.reverse();
    for (const which of order) {
      const { rate, text } = await answer(engines.get(which), form, seed);
      texts.add(text);
      if (rate !== undefined) by.get(which).push(rate);
    }
    if (texts.size > 1) different.push(`${name}, seed ${seed}`);
    else equal++;
  }
}
const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const rows = {};
for (const which of engines.keys()) {
  const of = (form) => rates.get(form).get(which);
  rows[which] = Object.fromEntries(Object.keys(FORMS).map((form) => [form, { decode_tokens_per_s: median(of(form)), share: median(of(form)) / median(of('free')), all: of(form) }]));
}
const { adapter } = [...engines.values()][0].info();
console.log(JSON.stringify({ files: files.map((file) => basename(file)), device, adapter, processor: cpus()[0].model, tokens: Number(values.tokens), first_answer_s, equal_answers: equal, different_answers: different, rows }, null, 2));
for (const engine of engines.values()) await engine.dispose();
process.exit(0);
