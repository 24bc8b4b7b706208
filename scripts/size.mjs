// What a page downloads, as gzip -9 bytes per part: the package's scripts and one build of the wasm module, as the
// built demo has them (the model's shards are data, not code); the demo's own scripts and styles; and the build for
// other networks, which no page for chat downloads. Fails above the budgets.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { BUILDS, buildDemo, dist, GRAMMAR, GRAPHS } from './build.mjs';
import { print } from './lib/output.mjs';
import { inRoot, main, Stop } from './lib/tools.mjs';

const BUDGET_BYTES = 1_000_000;
/** Of each build for networks, alone. A session runs language models too, with their experts and recurrences. */
const GRAPHS_BUDGET_BYTES = 1_400_000;
/** Of the module that holds answers to a form, which a page fetches with the first call that asks for one. */
const GRAMMAR_BUDGET_BYTES = 600_000;
/** Of the page's own scripts and styles beside the package, as they are fetched before somebody opens a part of it. */
const PAGE_BUDGET_BYTES = 150_000;
const PARTS = { '.wasm': 'wasm', '.js': 'JavaScript', '.css': 'style', '.html': 'page' };

/** Rows of part, file, bytes, gzip bytes. */
export function sizes(folder) {
  const rows = [];
  for (const name of readdirSync(folder, { recursive: true })) {
    const part = PARTS[extname(name)];
    if (!part) continue;
    const bytes = readFileSync(join(folder, name));
    rows.push({ part, name, bytes: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length });
  }
  return rows.sort((a, b) => b.gzip - a.gzip);
}

/**
 * The package's scripts among `rows` that a page fetches from opening to its first answer. The engine runs in a
 * worker; what it needs for one in the page's thread, for stored models or for names of the Hub is fetched when it is
 * asked for. Of the glue there are two copies, the page's and the worker's: one is fetched.
 */
export function fetched(rows, { threads }) {
  return ['rlx', 'engine_worker', 'error', threads ? 'rlx_wasm_threads' : 'rlx_wasm', ...(threads ? ['worker'] : [])].map((name) => script(rows, name));
}

/**
 * The page's own: its script, what that imports beside the package's, style and document. Its dialogs, its other views and
 * the colours of code are fetched when they are used.
 */
export function ownOf(rows) {
  // The page that measures a device has its own.
  const own = ({ part, name }) => (part === 'style' || part === 'page') && /(^|\/)index\b/.test(name);
  const scripts = [script(rows, 'index')];
  for (const { name } of scripts) {
    const text = readFileSync(inRoot('www', 'dist', name), 'utf8');
    for (const [, file] of text.matchAll(/\b(?:from|import)"\.\/([^"]+)"/g)) {
      const row = rows.find((each) => each.name === `assets/${file}`);
      if (row && !scripts.includes(row)) scripts.push(row);
    }
  }
  const packaged = ['rlx', 'error'].map((name) => new RegExp(`(^|/)${name}-[^/]{8}\\.js$`));
  return [...scripts.filter(({ name }) => !packaged.some((one) => one.test(name))), ...rows.filter(own)];
}

function script(rows, wanted) {
  const copies = rows.filter(({ name }) => new RegExp(`(^|/)${wanted}-[^/]{8}\\.js$`).test(name));
  if (copies.length === 0) throw new Stop(`the built demo has no script ${wanted}`);
  return copies[0]; // rows are sorted, the largest first
}

export async function sizeReport() {
  if (!existsSync(inRoot('www', 'dist', 'index.html'))) await buildDemo();
  const rows = sizes(inRoot('www', 'dist'));
  for (const { part, name, bytes, gzip } of rows) {
    print(`${String(gzip).padStart(9)} gzip -9  ${String(bytes).padStart(9)} bytes  ${part}: ${name}`);
  }
  // What looks inside a model has the build for other networks; no script that a chat fetches knows it.
  const first = [...fetched(rows, { threads: false }), ...fetched(rows, { threads: true }), ...ownOf(rows)];
  const scripts = first.filter(({ part }) => part === 'JavaScript').map(({ name }) => readFileSync(inRoot('www', 'dist', name), 'utf8'));
  const [{ name: other }] = GRAPHS; // and the beginning of its sister's name
  if (scripts.some((text) => text.includes(other))) throw new Stop(`the demo's scripts name ${other}.wasm, which a page for chat does not need`);
  const wasm = rows.filter(({ part }) => part === 'wasm');
  // A page downloads one build of the module: each has the whole budget.
  // wllama is another engine, which the benchmark fetches for a comparison.
  const builds = wasm.filter(({ name }) => ![other, 'wllama', ...GRAMMAR.map(({ name }) => name)].some((beside) => name.includes(beside)));
  if (builds.length !== BUILDS.length) throw new Stop(`the built demo has ${builds.length} wasm modules, expected ${BUILDS.length}`);
  for (const { name, gzip } of builds) {
    const rest = fetched(rows, { threads: name.includes('threads') });
    const total = rest.reduce((sum, row) => sum + row.gzip, gzip);
    print(`${String(total).padStart(9)} gzip -9  in all with ${name}, of ${BUDGET_BYTES} allowed`);
    if (total > BUDGET_BYTES) throw new Stop(`a page downloads ${total} bytes with ${name}, ${total - BUDGET_BYTES} more than allowed`);
  }
  const own = ownOf(rows).reduce((sum, row) => sum + row.gzip, 0);
  print(`${String(own).padStart(9)} gzip -9  the page's own scripts and styles beside that, of ${PAGE_BUDGET_BYTES} allowed`);
  if (own > PAGE_BUDGET_BYTES) throw new Stop(`the page itself has ${own} bytes, ${own - PAGE_BUDGET_BYTES} more than allowed`);
  const keeper = rows.find(({ name }) => name === 'sw.js');
  if (!keeper) throw new Stop('the built demo has no sw.js');
  print(`${String(keeper.gzip).padStart(9)} gzip -9  sw.js, fetched behind the first view, with what it keeps`);
  const packed = sizes(dist);
  const beside = [
    ...GRAPHS.map(({ name }) => ({ name, who: 'sessions and embedders', budget: GRAPHS_BUDGET_BYTES })),
    ...GRAMMAR.map(({ name }) => ({ name, who: 'calls that ask for a form', budget: GRAMMAR_BUDGET_BYTES })),
  ];
  for (const { name, who, budget } of beside) {
    const file = `${name}.wasm`;
    const module = packed.find((row) => row.name === file);
    if (!module) throw new Stop(`the package has no ${file}: run npm run build`);
    print(`${String(module.gzip).padStart(9)} gzip -9  ${file}, fetched by ${who} alone, of ${budget} allowed`);
    if (module.gzip > budget) throw new Stop(`${file} has ${module.gzip} bytes, ${module.gzip - budget} more than allowed`);
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main(sizeReport);
