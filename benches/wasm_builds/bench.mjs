// The wasm module's builds against each other: the default model on the CPU in one headless
// Chromium, builds taking turns. `node benches/wasm_builds/bench.mjs [rounds]`, after
// `node scripts/build.mjs` and, for those with threads, `npm run build:threads`.
//
// Prints one line of JSON: tokens per second of every turn, and the machine's load before it.

import { existsSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from '../../tests/browser/harness.mjs';

const MODEL = [1, 2, 3].map((n) => `/models/rustdoc-29m/rustdoc-29m-q4_k_m-0000${n}-of-00003.gguf`);
const BUILDS = [
  { name: 'rlx', relaxedSimd: false, threads: 1 },
  { name: 'rlx-relaxed', threads: 1 },
  { name: 'rlx-threads', relaxedSimd: false, threads: 2 },
  { name: 'rlx-threads-relaxed', threads: 2 },
].filter(({ name }) => existsSync(join(mounts['/dist/'], `${name}.wasm`)));
const rounds = Number(process.argv[2] ?? 3);

/** Several questions in one prompt, so that prefill is about 250 tokens; then 128 tokens. */
async function turn(browser, url, { relaxedSimd = true, threads }) {
  const { page, context } = await openPage(browser, `${url}/pages/empty.html`, { relaxedSimd });
  try {
    return await page.evaluate(async ({ model, threads }) => {
      const { Engine } = await import('/dist/index.js');
      const engine = await Engine.load({ model, device: 'cpu', cache: false, threads });
      const text = 'What does Vec::push do, and when does it allocate? Show an example of Option::map. ';
      const ask = (content, max_tokens) =>
        engine.chat.completions.create({ messages: [{ role: 'user', content }], temperature: 0, max_tokens });
      await ask('Hello.', 16); // code is compiled, workers are awake
      const { usage } = await ask(text.repeat(10), 128);
      const { adapter, prefillTokensPerSecond: prefill, decodeTokensPerSecond: decode } = engine.info();
      engine.dispose();
      return { adapter, usage, prefill, decode };
    }, { model: MODEL, threads });
  } finally {
    await context.close();
  }
}

const server = await startServer({ mounts: { ...mounts, '/models/': join(root, 'models') }, isolated: true });
const browser = await launch({ webgpu: false });
const turns = [];
for (let round = 0; round < rounds; round += 1) {
  for (const build of BUILDS) {
    const load = loadavg()[0];
    const { adapter, usage, prefill, decode } = await turn(browser, server.url, build);
    turns.push({ build: build.name, adapter, load, prompt: usage.prompt_tokens, tokens: usage.completion_tokens, prefill, decode });
    console.error(`${build.name}: prefill ${prefill?.toFixed(0)}, decode ${decode?.toFixed(0)} tokens/s, load ${load.toFixed(1)}`);
  }
}
const machine = `${cpus().length} x ${cpus()[0]?.model}, Chromium ${browser.version()}`;
await browser.close();
await server.close();
console.log(JSON.stringify({ machine, turns }));
