/** Measures this browser's GPU by `Engine.tune`, and shows the report in words, in numbers and as JSON. */

import './trusted.js';
import { Engine, RlxError } from 'rlx-wasm';
import type { DeviceReport, FormsReport } from 'rlx-wasm';

/** Three digits. */
const short = (n: number) => String(Number(n.toPrecision(3)));

const element = <T extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as T;
const measure = element<HTMLButtonElement>('measure');
const progress = element<HTMLProgressElement>('progress');
const working = element('working-text');

/** What a tuning's choices are, by their names in a report. */
const CHOICES: { [name: string]: string } = {
  short: 'Products with rows of up to 4,096 elements: threads x rows of a workgroup',
  long: 'Products with longer rows: threads x rows',
  gated: 'Products with a gate: threads x rows',
  head: 'The product that makes a token: threads x rows',
  parts: 'Attention: parts at a time',
};

/** What it works on, told at most where a tenth more is done: a screen reader says each. */
function tell(done: number): void {
  progress.value = done;
  const text = `Measuring: ${Math.floor(done * 10) * 10} % done`;
  if (working.textContent !== text) working.textContent = text;
}

async function run(): Promise<void> {
  measure.disabled = true;
  element('results').hidden = true;
  element('error').hidden = true;
  element('working').hidden = false;
  tell(0);
  try {
    const { report, kept } = await Engine.tune({ report: true, onProgress: tell });
    show(report!, kept);
  } catch (error) {
    const known = error instanceof RlxError ? error : undefined;
    element('error-what').textContent = known?.what ?? String(error);
    element('error-hint').textContent = known?.hint ?? '';
    element('error').hidden = false;
  }
  element('working').hidden = true;
  measure.textContent = 'Measure again';
  measure.disabled = false;
}

function show(report: DeviceReport, kept: boolean): void {
  element('summary').textContent = summary(report, kept);
  const facts: [string, string][] = [
    ['GPU', report.adapter + (report.software ? ' (software: the processor simulates it)' : '')],
    ['Memory', `${short(report.copy_bytes_per_second / 1e9)} GB/s of copies, reads and writes counted`],
    ['Features', report.features.join(', ') || 'none beyond what every WebGPU has'],
    ['Subgroups', report.subgroups ?? 'not used'],
    ...report.demoted.map((why): [string, string] => ['Not used', why]),
    ['Kernels', report.tuning],
  ];
  element('device').replaceChildren(...facts.flatMap(([name, value]) => [text('dt', name), text('dd', value)]));
  element('tables').replaceChildren(
    ...Object.entries(report.choices).map(([name, tried]) => choice(report, name, tried)),
    ...(report.forms.length > 0 ? [forms(report.forms)] : []),
  );
  const json = `${JSON.stringify(report, null, 2)}\n`;
  element('json').textContent = json;
  const download = element<HTMLAnchorElement>('download');
  URL.revokeObjectURL(download.href);
  download.href = URL.createObjectURL(new Blob([json], { type: 'application/json' }));
  element('copied').textContent = '';
  element('results').hidden = false;
  element('results').focus();
}

function summary({ software, forms: timed }: DeviceReport, kept: boolean): string {
  const sentences = [];
  if (software) sentences.push('There is no GPU that this browser may use: the processor simulates one, and runs models faster without that (device: “cpu”).');
  else {
    const floats = timed.some(({ chosen }) => chosen !== null && chosen.includes('f32'));
    const any = timed.some(({ chosen }) => chosen !== null);
    if (any) sentences.push(floats ? 'On this GPU floats are as fast as integers in some products, and are used there.' : 'On this GPU integers are faster than floats, and are used.');
  }
  sentences.push(kept ? 'The fastest kernels are stored for this site.' : 'This browser stores nothing for this site, so other pages do not know of it.');
  return sentences.join(' ');
}

/** What was tried for a choice; the one that was taken stands out, in words too. */
function choice({ tuning }: DeviceReport, name: string, tried: { [tried: string]: number }): HTMLElement {
  const taken = tuning.split(' ').find((word) => word.startsWith(`${name}=`))?.slice(name.length + 1);
  return table(CHOICES[name] ?? name, ['Tried', 'Milliseconds'], Object.entries(tried).map(([each, ms]) => [
    each === taken ? `${each} (taken)` : each, short(ms),
  ]));
}

function forms(all: FormsReport[]): HTMLElement {
  const pair = (ms: [number, number] | null) => (ms ? `${short(ms[0])} / ${short(ms[1])}` : '–');
  return table('Layers of models: milliseconds with integers / with floats', ['Model', 'A token', 'A prompt of 128', 'Taken'], all.map((each) => [
    each.model, pair(each.decode_ms), pair(each.prompt_ms), each.chosen ?? each.failed ?? '',
  ]));
}

function table(caption: string, head: string[], rows: string[][]): HTMLElement {
  const cells = (tag: 'th' | 'td', row: string[]) => {
    const line = document.createElement('tr');
    line.append(...row.map((cell) => text(tag, cell)));
    if (tag === 'th') line.querySelectorAll('th').forEach((cell) => cell.setAttribute('scope', 'col'));
    else if (row.some((cell) => cell.endsWith('(taken)'))) line.querySelectorAll('td').forEach((cell) => cell.classList.add('chosen'));
    return line;
  };
  const it = document.createElement('table');
  it.append(text('caption', caption), cells('th', head), ...rows.map((row) => cells('td', row)));
  const scroll = document.createElement('div');
  scroll.className = 'scroll';
  scroll.append(it);
  return scroll;
}

function text(tag: string, content: string): HTMLElement {
  return Object.assign(document.createElement(tag), { textContent: content });
}

measure.addEventListener('click', () => void run());
element('copy').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(element('json').textContent ?? '');
    element('copied').textContent = 'Copied.';
  } catch {
    element('copied').textContent = 'This browser did not let it be copied: select the text below.';
  }
});
