#!/usr/bin/env node
// Times encoders of random weights in wasm, in Node: the package's `Session` on the CPU beside onnxruntime-web, in
// turns in one run, one thread each (the package's build for such networks has one).
//
//     python3 benches/encoders/run.py --export FOLDER
//     npm install --prefix FOLDER onnxruntime-web
//     npm run build && node benches/encoders/wasm.mjs FOLDER [--models minilm,bert] [--rounds 5] [--out FILE]
//
// Both get the same f32 weights, the same ids and a mask of ones, and return all rows. Each round runs one side, then
// the other; a round's time is its best run, the result is the median of the rounds.

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { Session } from '../../crates/rlx-wasm/js/dist/index.js';

const { values, positionals: [folder] } = parseArgs({
  allowPositionals: true,
  options: { models: { type: 'string', default: 'minilm,bert' }, rounds: { type: 'string', default: '5' }, out: { type: 'string' } },
});
const from = join(process.cwd(), folder, 'node_modules/onnxruntime-web');
const ort = await import(pathToFileURL(join(from, 'dist/ort.node.min.mjs')).href);
ort.env.wasm.numThreads = 1;

const VOCAB = 30522;
const median = (all) => all.sort((a, b) => a - b)[all.length >> 1];
const read = (name, file) => readFileSync(join(folder, name, file));
const idsOf = (n) => Array.from({ length: n }, (_, i) => (i * 7919) % VOCAB);

/** The package's side: a function of batch and tokens that answers with the rows. */
async function rlx(name) {
  const blob = (file) => new Blob([read(name, file)]);
  const session = await Session.load({ model: blob('model.safetensors'), config: blob('config.json'), device: 'cpu' });
  const run = async (batch, seq) => {
    const dims = [batch, seq];
    const u32s = (data) => ({ data: Uint32Array.from(data), dims });
    const { hidden } = await session.run('encode', {
      input_ids: u32s(idsOf(batch * seq)),
      token_type_ids: u32s(new Array(batch * seq).fill(0)),
      attention_mask: u32s(new Array(batch * seq).fill(1)),
    });
    return hidden.data;
  };
  return { run, adapter: session.info().adapter, end: () => session.dispose() };
}

async function onnx(name) {
  const session = await ort.InferenceSession.create(read(name, 'model.onnx'), { executionProviders: ['wasm'], graphOptimizationLevel: 'all' });
  const run = async (batch, seq) => {
    const dims = [batch, seq];
    const i64s = (data) => new ort.Tensor('int64', BigInt64Array.from(data.map(BigInt)), dims);
    const { hidden } = await session.run({
      input_ids: i64s(idsOf(batch * seq)),
      token_type_ids: i64s(new Array(batch * seq).fill(0)),
      attention_mask: i64s(new Array(batch * seq).fill(1)),
    }, ['hidden']);
    return hidden.data;
  };
  return { run, end: () => session.release() };
}

const commit = (() => {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  } catch {
    return null;
  }
})();
const result = {
  date: new Date().toISOString().slice(0, 10), commit, cpu: cpus()[0].model, cores: cpus().length, node: process.version,
  onnxruntime_web: JSON.parse(readFileSync(join(from, 'package.json'), 'utf8')).version, threads: 1, rounds: Number(values.rounds), rows: [],
};
for (const name of values.models.split(',')) {
  const sides = { rlx: await rlx(name), ort: await onnx(name) };
  result.adapter = sides.rlx.adapter;
  for (const batch of [1, 16]) {
    for (const tokens of [16, 128, 512]) {
      // The largest takes a minute a run.
      const cost = batch * tokens * (name === 'bert' ? 6 : 1);
      const [runs, rounds] = cost > 16384 ? [1, 3] : [Math.max(1, Math.min(20, Math.floor(2000 / cost))), result.rounds];
      const times = { rlx: [], ort: [] };
      const rows = {};
      for (const key of ['rlx', 'ort']) rows[key] = await sides[key].run(batch, tokens);
      const most = rows.ort.reduce((m, x) => Math.max(m, Math.abs(x)), 0);
      const apart = rows.rlx.reduce((m, x, i) => Math.max(m, Math.abs(x - rows.ort[i])), 0) / most;
      if (!(apart <= 1e-3)) throw new Error(`${name}, ${batch} x ${tokens}: the two sides differ by ${apart} of the largest number`);
      for (let i = 0; i < rounds; i += 1) {
        for (const key of i % 2 === 0 ? ['rlx', 'ort'] : ['ort', 'rlx']) {
          let best = Infinity;
          for (let j = 0; j < runs; j += 1) {
            const begin = performance.now();
            await sides[key].run(batch, tokens);
            best = Math.min(best, performance.now() - begin);
          }
          times[key].push(best);
        }
      }
      const [r, o] = [median(times.rlx), median(times.ort)];
      const row = { model: name, batch, tokens, rlx_ms: +r.toFixed(3), ort_ms: +o.toFixed(3), ratio: +(o / r).toFixed(3), apart: +apart.toExponential(1) };
      result.rows.push(row);
      console.log(JSON.stringify(row));
    }
  }
  for (const side of Object.values(sides)) side.end();
}
if (values.out) writeFileSync(values.out, `${JSON.stringify(result, null, 1)}\n`);
process.exit(0);
