// RLX's package and wllama in one headless Chromium, in turns; README.md says how to run it.
import { execFileSync } from 'node:child_process';
import { createReadStream, existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { cpus, loadavg } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '../..');
const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    models: { type: 'string', default: 'llama-125m:q4_k_m,q4_0,q8_0,q6_k,iq4_xs;llama-3.2-1b:q4_k_m,q8_0' },
    rlx: { type: 'string', default: join(root, 'target/release/rlx') },
    dist: { type: 'string', default: join(root, 'crates/rlx-wasm/js/dist') },
    threads: { type: 'string', default: '1,2' },
    kv: { type: 'string', default: 'f16' },
    flash: { type: 'string' },
    'prompt-tokens': { type: 'string' },
    tokens: { type: 'string' },
    repeat: { type: 'string' },
    quick: { type: 'boolean', default: false },
    again: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    out: { type: 'string' },
    note: { type: 'string', default: '' },
  },
});
/** Times wllama's best, by threads. */
const GOALS = { 1: { prefill: 4, decode: 3 }, 2: { prefill: 3.5, decode: 2.5 } };
/** A file above this many bytes is loaded twice in a page, not three times, and has shorter turns. */
const LARGE = 400e6;
const run = (command, ...args) => execFileSync(command, args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });

/** The models: one file that was given, or those that `--models` names, each made when its turn comes. */
function models() {
  if (values.model) return [{ name: values.model.split('/').at(-1), file: () => values.model }];
  return values.models.split(';').flatMap((group) => {
    const [shape, formats] = group.split(':');
    return formats.split(',').map((format) => ({ name: `${shape} ${format}`, file: () => synth(shape, format) }));
  });
}

/** A model with random weights, made once. */
function synth(shape, format) {
  const path = join(root, `target/synth/${shape}-${format}.gguf`);
  if (!existsSync(path)) {
    mkdirSync(dirname(path), { recursive: true });
    run(values.rlx, 'synth', path, '--shape', shape, '--quant', format);
  }
  return path;
}

/** How long turns are and how many: what the command line says, or what a model of this size takes in minutes. */
function turnsOf(bytes) {
  const usual = values.quick ? [64, 16, 2] : bytes > LARGE ? [64, 16, 3] : [256, 64, 5];
  const [promptTokens, tokens, repeat] = ['prompt-tokens', 'tokens', 'repeat'].map((key, i) => Number(values[key] ?? usual[i]));
  const flash = (values.flash ?? (bytes > LARGE ? 'on' : 'on,off')).split(',');
  return { promptTokens, tokens, repeat, flash };
}

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm' };

/** Serves the page cross-origin isolated, which wllama's threads need. */
async function serve() {
  const server = { model: undefined };
  const mounts = { '/dist/': values.dist, '/wllama/': join(here, 'node_modules/@wllama/wllama/esm'), '/bench/': here };
  const listener = createServer((request, response) => {
    const path = new URL(request.url, 'http://x').pathname;
    const isolated = {
      'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp',
      'cross-origin-resource-policy': 'same-origin',
    };
    if (path === '/') {
      response.writeHead(200, { ...isolated, 'content-type': 'text/html' });
      response.end('<!doctype html><title>bench</title><script type="module" src="/bench/page.mjs"></script>');
      return;
    }
    const mount = Object.keys(mounts).find((prefix) => path.startsWith(prefix));
    const file = path === '/model.gguf' ? server.model : mount && !path.includes('..') ? join(mounts[mount], path.slice(mount.length)) : undefined;
    if (!file || !existsSync(file)) {
      response.writeHead(404, isolated).end();
      return;
    }
    response.writeHead(200, {
      ...isolated, 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-length': statSync(file).size,
    });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
  return Object.assign(server, { url: `http://127.0.0.1:${listener.address().port}/`, close: () => listener.close() });
}

const median = (list) => {
  const sorted = [...list].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
};
const round = (x) => Math.round(x * 1000) / 1000;
const rates = (turns, key) => {
  const list = turns.map((turn) => turn[key]);
  return { median_tokens_per_s: round(median(list)), least: round(Math.min(...list)), most: round(Math.max(...list)) };
};

/** One cell: both engines in one page, in turns. */
async function measure(browser, url, id, threads, { promptTokens, tokens, repeat, flash }) {
  const page = await browser.newPage();
  const errors = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
  await page.goto(url);
  await page.waitForFunction(() => globalThis.turn !== undefined);
  const context = promptTokens * 2 + tokens + 64;
  const common = { model: '/model.gguf', threads, context, kv: values.kv };
  const about = {};
  const load = async (name, kind, options) => {
    try {
      about[name] = await page.evaluate(([n, k, o]) => globalThis.load(n, k, o), [name, kind, { ...common, ...options }]);
      return true;
    } catch (error) {
      about[name] = { failed: String(error).split('\n')[0] };
      return false;
    }
  };
  const names = [];
  if (await load('rlx', 'rlx', {})) names.push('rlx');
  // wllama with and without flash attention: the faster one counts, for each measurement.
  for (const way of flash) {
    const name = way === 'on' ? 'wllama_flash' : 'wllama_plain';
    if (await load(name, 'wllama', { flash: way === 'on' })) names.push(name);
  }
  const turn = (name, id, perToken) =>
    page.evaluate((args) => globalThis.turn(...args), [name, id, promptTokens, perToken, tokens]);
  if (names.length === 0) {
    await page.close();
    return { id, threads, about, errors: errors.slice(0, 5) };
  }
  // Characters of a token, by trial: prompts of both are then of about the wanted length.
  const trial = await turn(names[0], 0, 1);
  const perToken = promptTokens / trial.prompt_tokens;
  const turns = Object.fromEntries(names.map((name) => [name, []]));
  for (let i = 0; i < repeat; i++) {
    for (const name of i % 2 === 0 ? names : [...names].reverse()) turns[name].push(await turn(name, i + 1, perToken));
  }
  await page.close();
  const cell = { id, threads, prompt_tokens: promptTokens, tokens, kv: values.kv, about };
  if (errors.length > 0) cell.errors = errors.slice(0, 5);
  for (const name of names) {
    cell[name] = {
      prefill: rates(turns[name], 'prefill_tokens_per_s'), decode: rates(turns[name], 'decode_tokens_per_s'), turns: turns[name],
    };
  }
  const theirs = names.filter((name) => name !== 'rlx');
  if (names.includes('rlx') && theirs.length > 0) {
    for (const what of ['prefill', 'decode']) {
      const best = Math.max(...theirs.map((name) => cell[name][what].median_tokens_per_s));
      cell[`${what}_ratio`] = round(cell.rlx[what].median_tokens_per_s / best);
    }
    const goal = GOALS[threads];
    if (goal) Object.assign(cell, { goal, goal_met: cell.prefill_ratio >= goal.prefill && cell.decode_ratio >= goal.decode });
  }
  cell.load_average = loadavg();
  cell.time = new Date().toISOString();
  return cell;
}

/** What the terminal is told of a cell. */
function line(cell) {
  const shown = (name) => `${name} ${cell[name].prefill.median_tokens_per_s.toFixed(1)} / ${cell[name].decode.median_tokens_per_s.toFixed(1)}`;
  const rates = ['rlx', 'wllama_flash', 'wllama_plain'].filter((name) => cell[name]).map(shown).join(', ');
  const ratio = cell.decode_ratio
    ? `prefill ${cell.prefill_ratio} x, decode ${cell.decode_ratio} x, goals ${cell.goal?.prefill} x and ${cell.goal?.decode} x`
    : JSON.stringify(cell.about);
  return `${cell.id}: prefill / decode tok/s: ${rates}; ${ratio}`;
}

if (!existsSync(join(here, 'node_modules/@wllama/wllama'))) {
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--no-package-lock', '--workspaces=false'], { cwd: here, stdio: 'inherit' });
}
if (!existsSync(join(values.dist, 'index.js'))) throw new Error(`no package in ${values.dist}: build it with \`npm run build\``);
const today = new Date().toISOString().slice(0, 10);
const out = values.out ?? join(root, 'benches/results', `${today}-wasm-vs-wllama${values.quick ? '-quick' : ''}.json`);
const result = existsSync(out) ? JSON.parse(readFileSync(out, 'utf8')) : { cells: [] };
Object.assign(result, {
  date: today,
  what: 'RLX and wllama in one headless Chromium, on one GGUF, in turns',
  wllama: JSON.parse(readFileSync(join(here, 'node_modules/@wllama/wllama/package.json'))).version,
  commit: run('git', 'rev-parse', '--short', 'HEAD').trim(),
  machine: `${cpus().length} cores of ${cpus()[0].model}`,
  note: values.note,
});
const server = await serve();
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path));
if (!executablePath) throw new Error('no Chromium: install it with `apt-get install chromium`');
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-features=WebGPU', '--disable-gpu', '--disable-background-networking'] });
result.browser = browser.version();
try {
  for (const { name, file } of models()) {
    for (const threads of values.threads.split(',').map(Number)) {
      const id = `${name} threads=${threads}`;
      if (!id.includes(values.only)) continue;
      const before = result.cells.findIndex((cell) => cell.id === id);
      if (before >= 0 && !values.again) continue;
      server.model = file();
      const bytes = statSync(server.model).size;
      const cell = { ...(await measure(browser, server.url, id, threads, turnsOf(bytes))), model_bytes: bytes };
      if (before >= 0) result.cells.splice(before, 1, cell);
      else result.cells.push(cell);
      writeFileSync(`${out}.part`, `${JSON.stringify(result, null, 1)}\n`);
      renameSync(`${out}.part`, out);
      console.log(line(cell));
    }
  }
} finally {
  await browser.close();
  server.close();
}
