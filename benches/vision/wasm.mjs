#!/usr/bin/env node
// Times networks of images and sound in wasm, in Node: the package's `Session` on the CPU beside onnxruntime-web, in
// turns in one run, with the same weights and inputs.
//
//     python3 benches/vision/models.py --export FOLDER [--only vit_b_224,..]
//     npm install --prefix OTHER onnxruntime-web
//     npm run build && node benches/vision/wasm.mjs FOLDER --ort OTHER [--only vit_b_224,..] [--rounds 5] [--out FILE]
//
// Both run on one thread: the package's build for such networks has one. Before a model is timed the outputs of both
// sides are compared. Each round runs one side, then the other; a round's time is its best run, the result is the
// median of the rounds. `ratio` is onnxruntime-web's time over RLX's, so above 1 RLX is faster.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { Session } from '../../crates/rlx-wasm/js/dist/index.js';

const {
  values,
  positionals: [folder],
} = parseArgs({
  allowPositionals: true,
  options: {
    ort: { type: 'string' },
    only: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    out: { type: 'string' },
    seconds: { type: 'string', default: '1' },
  },
});
const from = join(resolve(values.ort), 'node_modules/onnxruntime-web');
const ort = await import(pathToFileURL(join(from, 'dist/ort.node.min.mjs')).href);
ort.env.wasm.numThreads = 1;

/** The entry of a model that is timed, and the output that is compared. */
const ENTRIES = {
  sam_b_encoder: ['image_embed', 'image_embeddings'],
  sam2_tiny_encoder: ['image_embed', 'image_embeddings'],
  sam_b_decoder: ['mask', 'pred_masks'],
  wav2vec2_base_10s: ['encode', 'logits'],
};
const entryOf = (name) => ENTRIES[name] ?? ['encode', 'hidden'];

/** The tensor of a file that numpy wrote: `<f4` or `<i8`, rows first. */
function npy(path) {
  const bytes = readFileSync(path);
  const long = bytes[6] === 1 ? 2 : 4;
  const length = long === 2 ? bytes.readUInt16LE(8) : bytes.readUInt32LE(8);
  const head = bytes.toString('latin1', 8 + long, 8 + long + length);
  const type = /'descr': '([^']+)'/.exec(head)?.[1];
  const dims = /'shape': \(([^)]*)\)/
    .exec(head)?.[1]
    .split(',')
    .filter((n) => n.trim())
    .map(Number);
  const data = new Uint8Array(bytes.subarray(8 + long + length)).buffer;
  if (type === '<f4') return { data: new Float32Array(data), dims };
  if (type === '<i8') return { data: new BigInt64Array(data), dims };
  throw new Error(`${path} has elements of type ${type}`);
}

function inputsOf(name) {
  const given = join(folder, name, 'given');
  const files = readdirSync(given).filter((file) => file.endsWith('.npy'));
  return Object.fromEntries(files.map((file) => [file.slice(0, -4), npy(join(given, file))]));
}

/** The package's side: a function that runs the entry once and answers with the output. */
async function rlx(name, inputs) {
  const blob = (file) => new Blob([readFileSync(join(folder, name, file))]);
  const session = await Session.load({ model: blob('model.safetensors'), config: blob('config.json'), device: 'cpu' });
  const [entry, output] = entryOf(name);
  const given = {};
  for (const { name: input, type } of session.entries.find((e) => e.name === entry).inputs) {
    const { data, dims } = inputs[input];
    // RLX's integers have 32 bits where the exported model's have 64.
    const narrow = { u32: Uint32Array, i32: Int32Array }[type];
    given[input] = { data: data instanceof BigInt64Array && narrow ? narrow.from(data, Number) : data, dims };
  }
  const run = async () => (await session.run(entry, given))[output].data;
  return { run, adapter: session.info().adapter, end: () => session.dispose() };
}

async function onnx(name, inputs) {
  const model = join(folder, name, 'model.onnx');
  const session = await ort.InferenceSession.create(readFileSync(model), {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all',
  });
  const given = {};
  for (const input of session.inputNames) {
    const { data, dims } = inputs[input];
    given[input] = new ort.Tensor(data instanceof BigInt64Array ? 'int64' : 'float32', data, dims);
  }
  const [, output] = entryOf(name);
  const run = async () => (await session.run(given, [output]))[output].data;
  return { run, end: () => session.release() };
}

const median = (all) => all.sort((a, b) => a - b)[all.length >> 1];

async function time(side, runs) {
  let best = Infinity;
  for (let i = 0; i < runs; i += 1) {
    const begin = performance.now();
    await side.run();
    best = Math.min(best, performance.now() - begin);
  }
  return best;
}

const commit = (() => {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  } catch {
    return null;
  }
})();
const result = {
  date: new Date().toISOString().slice(0, 10),
  commit,
  cpu: cpus()[0].model,
  cores: cpus().length,
  node: process.version,
  onnxruntime_web: JSON.parse(readFileSync(join(from, 'package.json'), 'utf8')).version,
  threads: 1,
  rounds: Number(values.rounds),
  rows: [],
};
const names =
  values.only?.split(',') ?? readdirSync(folder).filter((name) => existsSync(join(folder, name, 'model.onnx')));
for (const name of names) {
  const inputs = inputsOf(name);
  const sides = { rlx: await rlx(name, inputs), ort: await onnx(name, inputs) };
  result.adapter = sides.rlx.adapter;
  const [a, b] = [await sides.rlx.run(), await sides.ort.run()];
  if (a.length !== b.length) throw new Error(`${name}: the outputs have ${a.length} and ${b.length} elements`);
  const most = b.reduce((m, x) => Math.max(m, Math.abs(x)), 0);
  const apart = a.reduce((m, x, i) => Math.max(m, Math.abs(x - b[i])), 0) / most;
  if (!(apart <= 1e-3)) throw new Error(`${name}: the outputs differ by ${apart} of the largest number`);
  const times = { rlx: [], ort: [] };
  const runs = {};
  for (const key of ['rlx', 'ort']) {
    runs[key] = Math.max(1, Math.min(20, Math.floor((Number(values.seconds) * 1e3) / (await time(sides[key], 1)))));
  }
  for (let i = 0; i < result.rounds; i += 1) {
    for (const key of i % 2 === 0 ? ['rlx', 'ort'] : ['ort', 'rlx']) times[key].push(await time(sides[key], runs[key]));
  }
  const [r, o] = [median(times.rlx), median(times.ort)];
  const row = {
    model: name,
    rlx_ms: +r.toFixed(3),
    ort_ms: +o.toFixed(3),
    ratio: +(o / r).toFixed(3),
    apart: +apart.toExponential(1),
  };
  result.rows.push(row);
  console.log(JSON.stringify(row));
  for (const side of Object.values(sides)) side.end();
}
if (values.out) writeFileSync(values.out, `${JSON.stringify(result, null, 1)}\n`);
process.exit(0);
