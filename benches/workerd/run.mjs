// First tokens of rustdoc-29m in workerd, Cloudflare's runtime, seen from outside: inside, no clock runs.

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { root } from '../../tests/package/project.mjs';
import { workerd } from '../../tests/package/workerd.mjs';

const { values: { repeat, note, out } } = parseArgs({ options: { repeat: { type: 'string', default: '5' }, note: { type: 'string' }, out: { type: 'string' } } });
const shards = [1, 2, 3].map((i) => `rustdoc-29m-q4_k_m-0000${i}-of-00003.gguf`);
const { questions } = JSON.parse(readFileSync(join(root, 'tests/fixtures/rustdoc-29m/expected.json'), 'utf8'));

const main = `import { Engine } from 'rlx-wasm/static';
import { handle } from 'rlx-wasm/openai';
import wasm from 'rlx.wasm';
let engine;
export default {
  async fetch(request, { files }) {
    const { pathname } = new URL(request.url);
    if (pathname === '/') return new Response('here');
    if (pathname === '/memory') return Response.json({ ...await engine.memory(), adapter: engine.info().adapter });
    engine ??= await Engine.load({ model: ${JSON.stringify(shards)}.map((name) => 'http://files/' + name), fetch: (...request) => files.fetch(...request), wasm, device: 'cpu', cache: false });
    return handle(request, { engine });
  },
};`;

const ends = [];
const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
const rounded = (numbers) => numbers.map((ms) => Math.round(ms * 10) / 10);

/** Milliseconds from the request to the first text of its answer, and to its end. */
async function ask(url, messages) {
  const start = performance.now();
  const body = JSON.stringify({ model: 'rlx', messages, temperature: 0, max_tokens: 32, stream: true });
  const response = await fetch(`${url}v1/chat/completions`, { method: 'POST', body });
  let [text, first] = ['', undefined];
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (first === undefined && /"content":"[^"]/.test(text)) first = performance.now() - start;
  }
  if (first === undefined) throw new Error(text);
  return { first, all: performance.now() - start };
}

/** The most that the process has held, in bytes. */
const peak = (pid) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024;

try {
  const load = [];
  const warm = [];
  let memory;
  let bytes;
  let idle;
  for (let run = 0; run < Number(repeat); run += 1) {
    const { url, pid } = await workerd({ 'main.js': main }, shards.map((name) => [join(root, 'models/rustdoc-29m', name), name]), ends);
    idle = peak(pid);
    load.push((await ask(url, questions[0].messages)).first);
    // No two questions begin alike behind the template's own words, so each prompt is computed.
    for (const { messages } of questions.slice(1)) warm.push(await ask(url, messages));
    memory = await (await fetch(`${url}memory`)).json();
    bytes = peak(pid);
    ends.pop()();
  }
  const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
  const date = new Date().toISOString().slice(0, 10);
  const result = {
    what: 'rustdoc-29m q4_k_m in workerd on the CPU: milliseconds from a request to the first text of its streamed answer, at the client',
    date, commit: git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '--untracked-files=no') && '+'),
    machine: `${cpus().length} cores of ${cpus()[0].model}`, ...(note && { note }), workerd: '1.20261117.1', repeat: Number(repeat),
    warm_first_token_ms: { median: rounded([median(warm.map(({ first }) => first))])[0], most: rounded([Math.max(...warm.map(({ first }) => first))])[0], all: rounded(warm.map(({ first }) => first)) },
    warm_answer_of_32_tokens_ms: { median: rounded([median(warm.map(({ all }) => all))])[0] },
    first_request_with_load_ms: { median: rounded([median(load)])[0], all: rounded(load) },
    wasm_memory_bytes: memory.wasm, adapter: memory.adapter, process_peak_bytes: { before_the_model: idle, all: bytes },
  };
  writeFileSync(out ?? join(root, 'benches/results', `${date}-workerd.json`), `${JSON.stringify(result, null, 2)}\n`);
  console.log(JSON.stringify(result, null, 2));
} finally {
  for (const end of ends) end();
}
