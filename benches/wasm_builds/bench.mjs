// The wasm module's builds against each other: the default model on the CPU in one headless
// Chromium, builds taking turns. `node benches/wasm_builds/bench.mjs [rounds]`, after
// `node scripts/build.mjs`. Needs a machine with nothing else to do, above all for threads.
//
// Prints one line of JSON: tokens per second of every turn, and the machine's load before it.

import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from '../../tests/browser/harness.mjs';

const MODEL = [1, 2, 3].map((n) => `/models/rustdoc-29m/rustdoc-29m-q4_k_m-0000${n}-of-00003.gguf`);
const BUILDS = [
  { name: 'rlx', relaxedSimd: false, threads: 1 },
  { name: 'rlx-relaxed', threads: 1 },
  { name: 'rlx-threads', relaxedSimd: false, threads: 2 },
  { name: 'rlx-threads-relaxed', threads: 2 },
];
const rounds = Number(process.argv[2] ?? 3);

/** A page with the model loaded on that build. */
async function load(browser, url, { relaxedSimd = true, threads }) {
  const { page } = await openPage(browser, `${url}/pages/empty.html`, { relaxedSimd });
  await page.evaluate(async ({ model, threads }) => {
    const { Engine } = await import('/dist/index.js');
    globalThis.engine = await Engine.load({ model, device: 'cpu', cache: false, threads });
  }, { model: MODEL, threads });
  return page;
}

/** A prompt of about 240 tokens that none has begun like, and its answer. */
const ask = (page, n) => page.evaluate(async (n) => {
  const text = 'What does Vec::push do, and when does it allocate? Show an example of Option::map. ';
  const content = `${n} ${text.repeat(10)}`;
  const { usage } = await engine.chat.completions.create({ messages: [{ role: 'user', content }], temperature: 0, max_tokens: 128 });
  const { adapter, prefillTokensPerSecond: prefill, decodeTokensPerSecond: decode } = engine.info();
  return { adapter, prompt: usage.prompt_tokens, tokens: usage.completion_tokens, prefill, decode };
}, n);

const server = await startServer({ mounts: { ...mounts, '/models/': join(root, 'models') }, isolated: true });
const browser = await launch({ webgpu: false });
const pages = [];
for (const build of BUILDS) pages.push({ build, page: await load(browser, server.url, build) });
// The browser compiles hot functions again, better, while they run: the first answers do not count.
for (const { page } of pages) for (const n of [101, 102, 103, 104]) await ask(page, n);
const turns = [];
for (let round = 0; round < rounds; round += 1) {
  for (const { build, page } of pages) {
    const load = loadavg()[0];
    turns.push({ build: build.name, load, ...await ask(page, round + 1) });
  }
}
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
for (const { name } of BUILDS) {
  const own = turns.filter(({ build }) => build === name);
  const [prefill, decode] = ['prefill', 'decode'].map((key) => median(own.map((turn) => turn[key])).toFixed(0));
  console.error(`${name}: median of ${own.length}: prefill ${prefill}, decode ${decode} tokens/s`);
}
const machine = `${cpus().length} x ${cpus()[0]?.model}, Chromium ${browser.version()}`;
await browser.close();
await server.close();
console.log(JSON.stringify({ machine, turns }));
