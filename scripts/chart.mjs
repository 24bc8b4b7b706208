// The chart of RLX beside its peers: SVG made of the newest measurements in benches/results.
//
// `node scripts/chart.mjs` writes it; tests/scripts/chart.test.mjs fails while it differs from the measurements.

import { readdirSync, readFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { inRoot, main, Stop } from './lib/tools.mjs';

const RESULTS = inRoot('benches', 'results');
const IMAGES = inRoot('docs', 'images');

const INKS = {
  light: { ink: '#1d1f23', quiet: '#5d616a', line: '#d5d2cc', own: '#b3400f', peer: '#9aa0aa' },
  dark: { ink: '#e9e8e4', quiet: '#a3a7b0', line: '#3a3d44', own: '#ff8f5c', peer: '#737984' },
};
const WIDTH = 880;
/** Where names of rows end, and where each of the two columns of bars begins. */
const NAMES = 132;
const COLUMNS = [148, 522];
/** The longest bar; its number stands behind it. */
const BAR = 290;
const THICK = 9;
const ROW = 26;

/** The newest result of a name: files begin with their date. */
function newest(name) {
  const files = readdirSync(RESULTS).filter((file) => new RegExp(`^\\d{4}-\\d{2}-\\d{2}-${name}\\.json(\\.gz)?$`).test(file));
  if (files.length === 0) throw new Stop(`no result ${name} in benches/results`);
  const file = files.sort().at(-1);
  const bytes = readFileSync(join(RESULTS, file));
  return { file, ...JSON.parse(file.endsWith('.gz') ? gunzipSync(bytes) : bytes) };
}

const FORMATS = ['q4_k_m', 'q4_0', 'iq4_xs', 'q6_k', 'q8_0', 'f16'];
const byFormat = (a, b) => FORMATS.indexOf(a.format) - FORMATS.indexOf(b.format) || a.threads - b.threads;

/** In a page: both engines in one Chromium. wllama's best of its two attentions counts, for each number apart. */
function inPage() {
  const { file, cells, wllama, machine, browser, commit, date } = newest('wasm-vs-wllama');
  const best = (cell, what) => Math.max(...['wllama_flash', 'wllama_plain'].map((how) => cell[how]?.[what].median_tokens_per_s ?? 0));
  const rows = cells.map((cell) => {
    const [model, format] = cell.id.split(' ');
    return {
      model,
      format,
      threads: cell.threads,
      prompt_tokens: cell.prompt_tokens,
      tokens: cell.tokens,
      prefill: [cell.rlx.prefill.median_tokens_per_s, best(cell, 'prefill')],
      decode: [cell.rlx.decode.median_tokens_per_s, best(cell, 'decode')],
    };
  });
  const llama = cells[0].about.wllama_flash.version;
  return {
    rows: rows.sort(byFormat),
    peer: `wllama ${wllama}`,
    title: `In a page: ${rows[0].model}, on the CPU`,
    about: [
      `Chromium ${browser} on ${machine}, ${date}, commit ${commit}, ${file}.`,
      `Random weights, prompts of ${rows[0].prompt_tokens} tokens, answers of ${rows[0].tokens}, medians. RLX with ${cells[0].about.rlx.activations} activations;`,
      `wllama (llama.cpp ${llama}) with flash attention or without, whichever is faster.`,
    ],
  };
}

/** Natively: a model as people use it, an empty context, every format that was measured. */
function natively(model = 'llama-3.2-1b') {
  const { file, cells, runs } = newest('cpu-vs-llamacpp');
  const chosen = cells.filter((cell) => cell.file.startsWith(`${model}-`) && cell.depth === 0);
  if (chosen.length === 0) throw new Stop(`${file} has no ${model}`);
  const rows = chosen.map((cell) => ({
    format: cell.file.slice(model.length + 1),
    threads: cell.threads,
    prefill: ['rlx', 'llama.cpp'].map((who) => cell[who].prefill.median_tokens_per_s),
    decode: ['rlx', 'llama.cpp'].map((who) => cell[who].decode.median_tokens_per_s),
  }));
  const [{ prefill_tokens, decode_tokens }] = chosen;
  const used = [...new Set(chosen.map(({ run }) => run))].sort().map((i) => runs[i]);
  const every = (key) => [...new Set(used.map((run) => run[key]))].join(' and ');
  const version = [...new Set(chosen.map((cell) => cell['llama.cpp'].about.version))].join(' and ');
  return {
    rows: rows.sort(byFormat),
    // The version is that of the Python package that has it.
    peer: `llama.cpp (llama-cpp-python ${version})`,
    title: `Natively: ${model}, on the CPU`,
    about: [
      `${every('machine')}, ${every('date')}, commits ${every('commit')}, ${file}.`,
      `Random weights, prompts of ${prefill_tokens} tokens, answers of ${decode_tokens}, medians. RLX with ${chosen[0].rlx.about.activations} activations;`,
      'llama.cpp with flash attention or without, whichever is faster.',
    ],
  };
}

const escaped = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');
const text = (x, y, words, attributes = '') => `<text x="${x}" y="${y}"${attributes && ` ${attributes}`}>${escaped(words)}</text>`;
const number = (value) => (value < 100 ? value.toFixed(1) : String(Math.round(value)));

/** One panel from `top`: its lines, and where it ends. */
function panel({ rows, peer, title, about }, top) {
  const lines = [text(0, top + 16, title, 'class="title"')];
  let x = COLUMNS[1];
  lines.push(`<rect x="${x}" y="${top + 7}" width="10" height="10" class="own"/>`, text(x + 15, top + 16, 'RLX'));
  lines.push(`<rect x="${(x += 56)}" y="${top + 7}" width="10" height="10" class="peer"/>`, text(x + 15, top + 16, peer));
  const begin = top + 48;
  const end = begin + rows.length * ROW;
  for (const [column, [key, name]] of [['prefill', 'Reading a prompt'], ['decode', 'Writing an answer']].entries()) {
    const left = COLUMNS[column];
    const most = Math.max(...rows.flatMap((row) => row[key]));
    lines.push(text(left, begin - 10, `${name}, tokens/s`, 'class="quiet"'));
    lines.push(`<path d="M${left - 0.5} ${begin - 3}V${end - 4}" class="axis"/>`);
    for (const [i, row] of rows.entries()) {
      const y = begin + i * ROW;
      if (column === 0) nameRow(lines, y, row);
      for (const [which, value] of row[key].entries()) {
        const at = y + which * (THICK + 1);
        const width = ((value / most) * BAR).toFixed(1);
        lines.push(`<rect x="${left}" y="${at}" width="${width}" height="${THICK}" class="${which ? 'peer' : 'own'}"/>`);
        lines.push(text((left + Number(width) + 5).toFixed(1), at + 8, number(value), 'class="number"'));
      }
    }
  }
  for (const [i, line] of about.entries()) lines.push(text(0, end + 14 + i * 15, line, 'class="quiet small"'));
  return { lines, bottom: end + 14 + about.length * 15 };
}

/** What a row is of, before its bars. */
function nameRow(lines, y, { format, threads }) {
  const words = `${format.toUpperCase()}, ${threads} thread${threads === 1 ? '' : 's'}`;
  lines.push(text(NAMES, y + 13, words, 'text-anchor="end"'));
}

/** What the chart shows, from top to bottom. Each row has RLX's number and the peer's, in tokens a second. */
export const panels = () => [inPage(), natively()];

/** The whole chart in the inks of a scheme. */
export function chart(scheme) {
  const { ink, quiet, line, own, peer } = INKS[scheme];
  const [page, native] = panels();
  const first = panel(page, 0);
  const second = panel(native, first.bottom + 18);
  const style = [
    `text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:${ink}}`,
    '.title{font-size:15px;font-weight:600}',
    `.quiet{fill:${quiet}}.small{font-size:11px}`,
    '.number{font-size:10.5px;font-variant-numeric:tabular-nums}',
    `.own{fill:${own}}.peer{fill:${peer}}.axis{stroke:${line};fill:none}`,
  ];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${second.bottom}" width="${WIDTH}" height="${second.bottom}" role="img">`,
    `<title>Tokens a second of RLX beside ${page.peer} in a page and ${native.peer} natively</title>`,
    `<style>${style.join('')}</style>`,
    ...first.lines,
    ...second.lines,
    '</svg>',
    '',
  ].join('\n');
}

/** Where the chart of a scheme is. */
export const chartPath = (scheme) => join(IMAGES, `peers-${scheme}.svg`);

export function writeCharts() {
  mkdirSync(IMAGES, { recursive: true });
  for (const scheme of Object.keys(INKS)) writeFileSync(chartPath(scheme), chart(scheme));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main(writeCharts);
