// How many greedy answers to the questions beside this file are those of f32 activations and caches: see README.md.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

const here = dirname(fileURLToPath(import.meta.url));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rlx: { type: 'string', default: join(here, '../../target/release/rlx') },
    device: { type: 'string', default: 'cpu' },
    threads: { type: 'string' },
    activations: { type: 'string', default: 'int16/mixed,int16/int16,int8/int8' },
    tokens: { type: 'string', default: '32' },
    out: { type: 'string' },
  },
});
if (positionals.length === 0) throw new Error('give one model file or several');
const questions = readFileSync(join(here, 'questions.txt'), 'utf8').trim().split('\n');

/** One greedy answer. */
async function answer(model, question, options) {
  const args = ['run', question, '--model', model, '--max-tokens', values.tokens, '--temperature', '0', ...options];
  const { stdout } = await promisify(execFile)(values.rlx, args);
  return stdout;
}

/** All answers of one kind. */
async function answers(model, options) {
  const list = [];
  for (const question of questions) list.push(await answer(model, question, options));
  return list;
}

const threads = values.threads ? ['--threads', values.threads] : [];
const result = { questions: questions.length, tokens: Number(values.tokens), device: values.device, models: {} };
for (const model of positionals) {
  const wanted = await answers(model, [...threads, '--device', 'cpu', '--activations', 'f32', '--kv', 'f32']);
  const equal = {};
  for (const activations of values.activations.split(',')) {
    const got = await answers(model, [...threads, '--device', values.device, '--activations', activations]);
    const others = questions.filter((_, i) => got[i] !== wanted[i]);
    equal[activations] = { equal: questions.length - others.length, others };
    console.log(`${basename(model)} ${activations}: ${equal[activations].equal} of ${questions.length}`);
  }
  result.models[basename(model)] = equal;
}
if (values.out) writeFileSync(values.out, `${JSON.stringify(result, null, 1)}\n`);
