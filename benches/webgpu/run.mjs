// Every shape and format of the bench through native wgpu (`rlx bench`) and through the npm package in
// Node on Dawn (dawn.mjs), as one result.
//
//   node benches/webgpu/run.mjs OUT.json [--rlx PATH] [--shapes A,B] [--only TEXT] [--native] [--commit ID] [--note TEXT]
//
// Models are made by `rlx synth` in the system's temporary folder and removed again.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';

const { values, positionals: [out] } = parseArgs({
  allowPositionals: true,
  options: {
    rlx: { type: 'string', default: 'target/release/rlx' },
    shapes: { type: 'string', default: 'llama-3.2-1b,llama-0.6b,llama-3.1-8b' },
    only: { type: 'string', default: '' },
    native: { type: 'boolean' },
    commit: { type: 'string' },
    note: { type: 'string', default: '' },
    repeat: { type: 'string', default: '5' },
    tokens: { type: 'string', default: '128' },
  },
});

if (!out) throw new Error('say where the result goes: run.mjs OUT.json');

const FORMATS = ['q4_k_m', 'q8_0'];
/** Prompt tokens, and the depth that they and the decode steps stand behind. */
const CELLS = [[512, 0], [2048, 0], [64, 4096]];
const CONTEXT = 4608;

const output = (command, ...args) => execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 26 });
const dawn = fileURLToPath(new URL('dawn.mjs', import.meta.url));

const result = {
  date: new Date().toISOString().slice(0, 10),
  commit: values.commit ?? output('git', 'rev-parse', '--short', 'HEAD').trim(),
  processor: cpus()[0]?.model, note: values.note, context: CONTEXT, models: [],
};
for (const shape of values.shapes.split(',')) {
  for (const quant of FORMATS) {
    const name = `${shape}-${quant}`;
    if (!name.includes(values.only)) continue;
    const file = join(tmpdir(), `${name}.gguf`);
    if (!existsSync(file)) output(values.rlx, 'synth', file, '--shape', shape, '--quant', quant);
    const native = CELLS.map(([prompt, depth]) => JSON.parse(output(
      values.rlx, 'bench', '--model', file, '--device', 'webgpu', '--context', String(CONTEXT), '--json', '--repeat', values.repeat,
      '--prompt-tokens', String(prompt), '--tokens', values.tokens, '--depth', String(depth),
    )));
    let npm = null;
    if (!values.native) {
      // Node 20's `openAsBlob` counts bytes in 32 bits.
      output(values.rlx, 'split', file, join(tmpdir(), name), '--max-size', '2G');
      const shards = readdirSync(tmpdir()).filter((shard) => shard.startsWith(`${name}-0`)).map((shard) => join(tmpdir(), shard));
      npm = JSON.parse(output(process.execPath, dawn, ...shards, '--repeat', values.repeat));
      shards.forEach((shard) => rmSync(shard));
    }
    rmSync(file);
    for (const [i, [prompt, depth]] of CELLS.entries()) {
      const { prefill_tokens_per_s: p, decode_tokens_per_s: d } = native[i];
      console.log(`${name.padEnd(22)} native  prompt ${prompt} behind ${depth}: ${p.toFixed(0)} tok/s, decode ${d.toFixed(1)}`);
    }
    for (const row of npm?.rows ?? []) {
      const { prompt_tokens: n, prefill_tokens_per_s: p, decode_tokens_per_s: d } = row;
      console.log(`${name.padEnd(22)} npm     prompt ${n}: ${p.toFixed(0)} tok/s, decode ${d.toFixed(1)}`);
    }
    result.models.push({ shape, quant, native: native.map((row, i) => ({ prompt: CELLS[i][0], depth: CELLS[i][1], ...row })), npm });
    writeFileSync(out, `${JSON.stringify(result, null, 1)}\n`);
  }
}
