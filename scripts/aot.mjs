// Compiles networks of several kinds for TPUs by libtpu, one after the other, and writes XLA's memory beside our plans' as
// a dated JSON. No TPU is needed; two cores take minutes for a small model, and gigabytes for one of a billion parameters.
//   node scripts/aot.mjs [--models bert,sam] [--topologies v5e:2x2] [--limit SECONDS] [--out FILE] [--aot BINARY]
// What a result has already is not compiled again.

import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { ended, said } from './lib/proof_cells.mjs';
import { ask, inRoot, main, run, say, seconds, Stop } from './lib/tools.mjs';

/** A name, and what the example `aot` takes: two encoders, then decoders that are dense, sparse, recurrent and large. */
const MODELS = {
  bert: ['tests/fixtures/bert/bert.gguf'],
  sam: ['tests/fixtures/sam'],
  qwen3_moe: ['tests/fixtures/gguf/qwen3moe.gguf'],
  qwen35: ['tests/fixtures/gguf/qwen35.gguf'],
  'rustdoc-29m q4_k_m': ['models/rustdoc-29m/rustdoc-29m-q4_k_m-00001-of-00003.gguf'],
  'llama-3.2-1b q4_k_m': ['shape:llama-3.2-1b/q4_k_m', '--context', '1024'],
};
const TOPOLOGIES = ['v5e:2x2', 'v4:2x2x1', 'v6e:2x2'];
/** Seconds of a model on one topology. */
const LIMIT = 1800;

await main(async () => {
  const { values } = parseArgs({ options: { models: { type: 'string' }, topologies: { type: 'string' }, limit: { type: 'string' }, out: { type: 'string' }, aot: { type: 'string' } } });
  const models = values.models?.split(',') ?? Object.keys(MODELS);
  const unknown = models.filter((name) => !(name in MODELS));
  if (unknown.length > 0) throw new Stop(`no model ${unknown.join(', ')}; there are ${Object.keys(MODELS).join(', ')}`);
  const [topologies, limit] = [values.topologies?.split(',') ?? TOPOLOGIES, Number(values.limit ?? LIMIT)];
  const plugin = inRoot('target', 'plugins', 'libtpu.so');
  if (!existsSync(plugin)) throw new Stop('libtpu is not there: node scripts/plugins.mjs libtpu fetches it');
  if (!values.aot) await run('cargo', ['build', '-p', 'rlx-native', '--features', 'aot,emulator', '--example', 'aot']);
  const aot = values.aot ?? inRoot('target', 'debug', 'examples', 'aot');
  const [date, commit] = [new Date().toISOString().slice(0, 10), ask('git', ['rev-parse', '--short', 'HEAD']) ?? 'unknown'];
  const out = values.out ?? inRoot('benches', 'results', `${date}-tpu-aot.json`);
  // Read again each time: several runs may write one result, each for other models.
  const read = () => (existsSync(out) ? JSON.parse(readFileSync(out, 'utf8')) : { date, runs: [] });
  for (const topology of topologies) {
    for (const name of models) {
      if (read().runs.some((own) => own.name === name && own.topology === topology)) continue;
      const began = performance.now();
      say(`${name} for ${topology} …`);
      const [model, ...more] = MODELS[name];
      const { code, stdout, stderr, late } = await ended('nice', ['-n', '10', aot, plugin, model, topology, '--json', ...more], { limit });
      const report = stdout.startsWith('{') ? JSON.parse(stdout) : null;
      const failed = late ? `not done within ${limit} s` : report ? undefined : said(stderr) || `exit ${code}`;
      const result = read();
      result.runs.push({ name, topology, commit, seconds: Math.round((performance.now() - began) / 1000), failed, family: report?.family, context: report?.context, programs: report?.programs ?? [] });
      writeFileSync(`${out}.part`, `${JSON.stringify(result)}\n`);
      renameSync(`${out}.part`, out);
      say(`${name} for ${topology}: ${failed ?? report.programs.map((made) => `${made.program} ${made.refused ?? 'compiled'}`).join(', ')}, ${seconds(began)}`);
    }
  }
});
