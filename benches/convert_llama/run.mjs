// Converts recorded transformers folders with `rlx convert`, loads each GGUF file in llama.cpp, and compares the greedy
// tokens of both. README.md says how to run it.

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { LlamaLogLevel, getLlama } from 'node-llama-cpp';
import { familyFolder, tokenizerFolder } from './folders.mjs';

const FAMILIES = [
  'llama32', 'llama_untied_bias', 'llama_yarn', 'mistral', 'mixtral', 'granite', 'gpt_oss', 'minicpm3', 'deepseek_v2',
  'deepseek_v3', 'smollm3', 'olmo2', 'phi3', 'phi3_longrope', 'qwen2', 'qwen3', 'qwen3_moe', 'qwen3_next', 'qwen35',
  'lfm2', 'gemma', 'gemma2', 'gemma3', 'gemma4', 'gemma4_moe',
];
const TOKENIZERS = ['llama3', 'qwen2', 'qwen35'];

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { rlx: { type: 'string' }, reference: { type: 'string' }, out: { type: 'string' } },
});
if (!options.rlx || !options.reference) throw new Error('give --rlx PATH and --reference FOLDER');

const scratch = mkdtempSync(join(tmpdir(), 'rlx-convert-'));
const rlx = (...args) => execFileSync(options.rlx, args, { stdio: ['ignore', 'pipe', 'pipe'] }).toString();

/** A text's ids as an .npy file. */
function npy(path, ids) {
  const header = `{'descr': '<u4', 'fortran_order': False, 'shape': (${ids.length},), }`.padEnd(117) + '\n';
  const start = Buffer.concat([Buffer.from('\x93NUMPY\x01\x00', 'latin1'), Buffer.from([header.length, 0]), Buffer.from(header)]);
  writeFileSync(path, Buffer.concat([start, Buffer.from(Uint32Array.from(ids).buffer)]));
}

/** The greedy tokens of a folder, each from the logits of the whole text so far. */
function greedyOfFolder(folder, prompt, count) {
  const [input, output] = [join(scratch, 'ids.npy'), join(scratch, 'logits')];
  const ids = [...prompt];
  for (let i = 0; i < count; i++) {
    npy(input, ids);
    rlx('graph', folder, '--entry', 'logits', '--input', `ids=${input}`, '--output', output, '--force', '--context', '64');
    const file = readFileSync(join(output, 'logits.npy'));
    const data = file.subarray(10 + file.readUInt16LE(8));
    const logits = new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength));
    const last = logits.subarray(logits.length - logits.length / ids.length);
    ids.push(last.indexOf(last.reduce((most, x) => Math.max(most, x))));
  }
  return ids.slice(prompt.length);
}

async function greedyOfLlama(model, prompt, count) {
  const context = await model.createContext({ contextSize: 64, threads: 1 });
  const tokens = [];
  for await (const token of context.getSequence().evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    if (tokens.push(token) === count) break;
  }
  await context.dispose();
  return tokens;
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const llama = await getLlama({ gpu: false, build: 'never', skipDownload: true, logLevel: LlamaLogLevel.error });
const results = [];
const chosen = (all) => all.filter((name) => positionals.length === 0 || positionals.includes(name));

for (const name of chosen(FAMILIES)) {
  const result = { family: name };
  try {
    const { folder, changed, prompt, greedy } = familyFolder(options.reference, name, scratch);
    const file = `${folder}.gguf`;
    result.converted = rlx('convert', folder, file).trim().split(': ').slice(1).join(': ').replace(/ in [\d.]+ s$/, '');
    // A folder that was changed has no record; RLX itself says what it answers.
    const expected = changed ? greedyOfFolder(folder, prompt, greedy.length) : greedy;
    const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
    const got = await greedyOfLlama(model, prompt, greedy.length);
    await model.dispose();
    Object.assign(result, { changed, expected: changed ? 'rlx' : 'transformers', greedy: expected, llama: got, equal: same(expected, got) });
  } catch (error) {
    Object.assign(result, { error: error.stderr?.toString() ?? error.message, equal: false });
  }
  console.log(`${name}: ${result.equal ? 'equal' : 'DIFFERENT'} ${result.error ?? result.changed ?? ''}`);
  results.push(result);
}

for (const name of chosen(TOKENIZERS.map((n) => `tokenizer-${n}`))) {
  const result = { tokenizer: name };
  try {
    const { folder, strings, recorded } = tokenizerFolder(options.reference, name.replace('tokenizer-', ''), scratch);
    rlx('convert', folder, `${folder}.gguf`);
    const model = await llama.loadModel({ modelPath: `${folder}.gguf`, gpuLayers: 0 });
    const bos = model.tokens.shouldPrependBosToken ? [model.tokens.bos] : [];
    const wrong = strings.filter(({ text }, i) => {
      const got = [...bos, ...model.tokenize(text, true, 'trimLeadingSpace')];
      return !same(got, recorded[i].llama_ids ?? recorded[i].ids);
    });
    await model.dispose();
    Object.assign(result, { strings: strings.length, wrong: wrong.map((s) => s.name), equal: wrong.length === 0 });
  } catch (error) {
    Object.assign(result, { error: error.stderr?.toString() ?? error.message, equal: false });
  }
  console.log(`${name}: ${result.equal ? 'equal' : 'DIFFERENT'} ${result.error ?? result.wrong}`);
  results.push(result);
}

const failed = results.filter((result) => !result.equal).length;
console.log(`${results.length - failed} of ${results.length} equal`);
if (options.out) {
  const { version } = JSON.parse(readFileSync(new URL('node_modules/node-llama-cpp/package.json', import.meta.url), 'utf8'));
  const { release } = llama.llamaCppRelease;
  const about = { what: 'benches/convert_llama/run.mjs', machine: cpus()[0].model, 'node-llama-cpp': version, 'llama.cpp': release };
  const lines = Object.entries(about).map(([key, value]) => ` ${JSON.stringify(key)}: ${JSON.stringify(value)},\n`).join('');
  writeFileSync(options.out, `{\n${lines} "results": [\n  ${results.map((r) => JSON.stringify(r)).join(',\n  ')}\n ]\n}\n`);
}
rmSync(scratch, { recursive: true });
process.exit(failed ? 1 : 0);
