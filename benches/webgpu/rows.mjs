// Decoding with f32 and with int8 activations on this machine's GPU, natively, in turns: what the product of one row
// with packed weights takes in each form, by model, format and shape of workgroups.
//
//   node benches/webgpu/rows.mjs OUT.json [--rlx PATH] [--before PATH] [--models S:LAYERS,...] [--quants Q,...]
//        [--tunings TEXT;...] [--repeat N] [--tokens N] [--profile] [--note TEXT]
//
// Models are made by `rlx synth` in the system's temporary folder and removed again. `--before` is the binary of
// another commit, measured beside. `--tunings` has texts as `rlx devices` prints them, each of which is tried with f32.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

const { values, positionals: [out] } = parseArgs({
  allowPositionals: true,
  options: {
    rlx: { type: 'string', default: 'target/release/rlx' },
    before: { type: 'string' },
    models: { type: 'string', default: 'llama-3.2-1b:16,llama-3.1-8b:8' },
    quants: { type: 'string', default: 'q4_k_m,q8_0,q4_0' },
    tunings: { type: 'string', default: '' },
    repeat: { type: 'string', default: '5' },
    tokens: { type: 'string', default: '128' },
    profile: { type: 'boolean' },
    note: { type: 'string', default: '' },
  },
});
if (!out) throw new Error('say where the result goes: rows.mjs OUT.json');

const folder = mkdtempSync(join(tmpdir(), 'rlx-rows-'));
const run = (binary, env, ...args) => execFileSync(binary, args, { encoding: 'utf8', env: { ...process.env, ...env }, maxBuffer: 1 << 26 });

/** A cache folder whose tuning is this text, as `rlx devices --tune` would have left it. */
function tuned(text, index) {
  const cache = join(folder, `tuning-${index}`);
  if (text === '') return cache;
  run(values.rlx, { RLX_CACHE_DIR: cache }, 'devices', '--tune');
  const file = join(cache, 'tuning.json');
  const kept = JSON.parse(readFileSync(file, 'utf8'));
  writeFileSync(file, JSON.stringify(Object.fromEntries(Object.keys(kept).map((key) => [key, text]))));
  return cache;
}

/** `rlx bench --turns`: `decode()` gives the seconds of `--tokens` steps. */
async function turns(binary, file, activations, cache) {
  const args = ['bench', '--turns', '--device', 'webgpu', '--model', file, '--prompt-tokens', '1', '--tokens', values.tokens, '--activations', activations];
  const child = spawn(binary, args, { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, RLX_CACHE_DIR: cache } });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${binary} ${args.join(' ')} ended`);
    return JSON.parse(value);
  };
  const ready = await next();
  return {
    ready,
    decode: async () => {
      child.stdin.write('decode\n');
      return next();
    },
    end: () => child.stdin.end(),
  };
}

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const result = { date: new Date().toISOString(), note: values.note, processor: cpus()[0]?.model, device: run(values.rlx, {}, 'devices'), rows: [] };
const texts = values.tunings.split(';').filter(Boolean);
try {
  const caches = [tuned('', 0), ...texts.map((text, i) => tuned(text, i + 1))];
  for (const model of values.models.split(',')) {
    const [shape, layers] = model.split(':');
    for (const quant of values.quants.split(',')) {
      const file = join(folder, 'model.gguf');
      run(values.rlx, {}, 'synth', file, '--force', '--shape', shape, '--quant', quant, ...(layers ? ['--layers', layers] : []));
      const forms = [
        { form: 'f32', binary: values.rlx, activations: 'f32', cache: caches[0] },
        { form: 'int8', binary: values.rlx, activations: 'int8', cache: caches[0] },
        ...(values.before ? ['f32', 'int8'].map((a) => ({ form: `${a} before`, binary: values.before, activations: a, cache: caches[0] })) : []),
        ...texts.map((text, i) => ({ form: `f32 ${text}`, binary: values.rlx, activations: 'f32', cache: caches[i + 1] })),
      ];
      for (const f of forms) f.bench = await turns(f.binary, file, f.activations, f.cache);
      for (const f of forms) f.seconds = [];
      // The first of each warms up.
      for (let i = 0; i <= Number(values.repeat); i++) {
        for (const f of forms) {
          const { seconds } = await f.bench.decode();
          if (i > 0) f.seconds.push(seconds);
        }
      }
      for (const f of forms) f.bench.end();
      for (const { form, seconds } of forms) {
        const rate = Number(values.tokens) / median(seconds);
        console.log(`${model} ${quant.padEnd(7)} ${form.padEnd(12)} ${rate.toFixed(1)} tokens/s`);
        result.rows.push({ model, quant, form, tokens_per_s: rate, seconds });
      }
      if (values.profile) {
        for (const { form, binary, activations, cache } of forms) {
          const text = run(binary, { RLX_CACHE_DIR: cache }, 'bench', '--profile', '--device', 'webgpu', '--model', file, '--prompt-tokens', '1', '--tokens', '16', '--activations', activations);
          result.rows.push({ model, quant, form, profile: text });
        }
      }
      writeFileSync(out, `${JSON.stringify(result, null, 1)}\n`);
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
