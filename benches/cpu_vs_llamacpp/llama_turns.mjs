// llama.cpp by npm `node-llama-cpp`, measured one turn at a time: llama_turns.py where no llama-cpp-python
// can be built. A decode step samples greedily, as RLX's does.
//
//   node llama_turns.mjs FOLDER --model FILE --threads N --kv f16 --prompt-tokens P --tokens T [--depth D]
//
// FOLDER is where `npm install node-llama-cpp` was called.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const { values, positionals: [folder] } = parseArgs({
  allowPositionals: true,
  options: Object.fromEntries(
    ['model', 'threads', 'kv', 'prompt-tokens', 'tokens', 'depth'].map((name) => [name, { type: 'string' }]),
  ),
});
const [threads, prompt, steps, depth] = [values.threads, values['prompt-tokens'], values.tokens, values.depth ?? 0].map(Number);
const found = createRequire(join(folder, 'package.json')).resolve('node-llama-cpp');
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(found).href);

const llama = await getLlama({ gpu: false, build: 'never', progressLogs: false, logLevel: LlamaLogLevel.error, maxThreads: threads });
const model = await llama.loadModel({ modelPath: values.model, gpuLayers: 0 });
const vocabulary = model.fileInfo.metadata.tokenizer.ggml.tokens.length;

/** One context, with flash attention or without. */
async function contextOf(flashAttention) {
  const context = await model.createContext({
    contextSize: depth + prompt + steps + 2, batchSize: 512, threads: { ideal: threads, min: threads }, flashAttention,
    experimentalKvCacheKeyType: values.kv.toUpperCase(), experimentalKvCacheValueType: values.kv.toUpperCase(),
  });
  const sequence = context.getSequence();
  let turn = 0;
  /** Forgets all behind the depth; what keeps no part of a sequence is computed anew. */
  const hold = async () => {
    if (sequence.nextTokenIndex > depth) await sequence.eraseContextTokenRanges([{ start: depth, end: sequence.nextTokenIndex }]);
    if (sequence.nextTokenIndex !== depth) {
      await sequence.clearHistory();
      if (depth > 0) await sequence.evaluateWithoutGeneratingNewTokens(Array.from({ length: depth }, (_, i) => i % vocabulary));
    }
  };
  const prefill = async () => {
    await hold();
    turn += 1;
    const tokens = Array.from({ length: prompt }, (_, i) => (turn + 7 * i) % vocabulary);
    const start = performance.now();
    // With the last token's logits, and a token of them.
    for await (const _ of sequence.evaluate(tokens, { temperature: 0 })) break;
    return (performance.now() - start) / 1e3;
  };
  const decode = async () => {
    await hold();
    turn += 1;
    let [start, count] = [0, 0];
    for await (const _ of sequence.evaluate([turn % vocabulary], { temperature: 0, yieldEogToken: true })) {
      if (count === 0) start = performance.now();
      if (count === steps) break;
      count += 1;
    }
    if (count < steps) throw new Error(`llama.cpp ended after ${count} tokens`);
    return (performance.now() - start) / 1e3;
  };
  return { flashAttention, turns: { prefill, decode } };
}

const say = (fields) => console.log(JSON.stringify({ ...fields, peak_rss_bytes: process.resourceUsage().maxRSS * 1024 }));
const ways = values.kv === 'q8_0' ? [true] : [true, false];
const fastest = {};
for (const way of ways) {
  const context = await contextOf(way);
  for (const [what, turn] of Object.entries(context.turns)) {
    const seconds = Math.min(await turn(), await turn());
    if (!(fastest[what]?.seconds <= seconds)) fastest[what] = { seconds, turn, flash: way };
  }
}
const flash = Object.fromEntries(Object.entries(fastest).map(([what, { flash: way }]) => [what, way]));
say({ ready: true, system: llama.systemInfo, version: `llama.cpp ${llama.llamaCppRelease.release}`, flash });
for await (const line of createInterface({ input: process.stdin })) {
  const best = fastest[line.trim()];
  if (!best) throw new Error(`${line} is no turn`);
  say({ seconds: await best.turn() });
}
process.exit(0);
