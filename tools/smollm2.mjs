// The part of tools/smollm2.py that asks llama.cpp: `node smollm2.mjs FILE.gguf TOKENS` reads prompts, a JSON
// array, on stdin and prints the ids of each and the greedy tokens behind it, without the
// one that ends an answer. Run where node_modules is.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { resolve } = createRequire(join(process.cwd(), 'x.js'));
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(resolve('node-llama-cpp')).href);
const [modelPath, most] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
const answers = [];
for (const prompt of JSON.parse(readFileSync(0, 'utf8'))) {
  const context = await model.createContext({ contextSize: 256, threads: 2, flashAttention: false });
  const ids = model.tokenize(prompt, true);
  const tokens = [];
  for await (const token of context.getSequence().evaluate(ids, { temperature: 0 })) {
    tokens.push(token);
    if (tokens.length >= Number(most)) break;
  }
  answers.push({ ids, tokens });
  await context.dispose();
}
console.log(JSON.stringify(answers));
process.exit(0);
