// `npm run mutants`: do the tests notice small defects? A person runs it; it takes about half an hour.
//
// The list in tests/mutants/ has small defects over Rust, WGSL and JS. All of them are put into one
// copy of the working tree, each behind a switch, the copy is built once, and the tests run with one
// defect after the other switched on.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { mkdtempSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ask, inRoot, main, requireNode, requireRust, say, step, Stop } from './lib/tools.mjs';
import { editsOf, idOf, language, spanOf, writeTree } from './lib/mutants_tree.mjs';
import { baselineJs, baselineOf, buildJs, buildRust, firstTests, tryAll, tryFirst, tryJs } from './lib/mutants_run.mjs';

const HELP = `npm run mutants -- [NAME…] [--out FILE]   runs all mutants of the list, or those named
npm run mutants -- --list                 prints the list
npm run mutants -- --check                only checks that every snippet still occurs once in its file
npm run mutants -- --changed [BASE]       runs cargo-mutants on the Rust that changed since BASE (HEAD)

A NAME may end with *, which stands for any rest. The exit status is 1 when a mutant survives whose
entry does not say why.`;

const ORIGINS = ['review', 'new', 'ours'];
const KINDS = ['bound', 'condition', 'operand', 'constant', 'rounding', 'order', 'state', 'guard', 'arithmetic'];

/** The list, checked for what an entry must have. */
async function readList() {
  const at = inRoot('tests', 'mutants');
  const lists = readdirSync(at).filter((name) => name.endsWith('.mjs')).sort();
  const all = [];
  for (const name of lists) all.push(...(await import(pathToFileURL(join(at, name)).href)).default);
  const seen = new Map();
  for (const mutant of all) {
    const wrong = (what) => new Stop(`the mutant ${mutant.name ?? '?'} in tests/mutants/ ${what}`);
    for (const key of ['name', 'file', 'from', 'kind', 'stands', 'is']) {
      if (typeof mutant[key] !== 'string' || mutant[key] === '') throw wrong(`has no ${key}`);
    }
    if (typeof mutant.to !== 'string' || mutant.to === mutant.from) throw wrong('has no other text to put there');
    if (!Array.isArray(mutant.tests) || mutant.tests.length === 0) throw wrong('names no tests');
    if (!ORIGINS.includes(mutant.is)) throw wrong(`is ${mutant.is}, expected ${ORIGINS.join(' or ')}`);
    if (!KINDS.includes(mutant.kind)) throw wrong(`has the kind ${mutant.kind}, expected ${KINDS.join(', ')}`);
    const id = language(mutant) === 'js' ? mutant.name : idOf(mutant.name);
    if (seen.has(id)) throw wrong('has the name, or the number, of another one');
    seen.set(id, mutant);
  }
  return all;
}

/** Names every entry whose snippet does not occur exactly once. */
function check(mutants) {
  const texts = new Map();
  const stale = [];
  for (const mutant of mutants) {
    try {
      if (!texts.has(mutant.file)) texts.set(mutant.file, readFileSync(inRoot(mutant.file), 'utf8'));
      for (const edit of editsOf(mutant)) spanOf(edit, texts.get(mutant.file));
    } catch (error) {
      stale.push(error instanceof Stop ? error.message : `the mutant ${mutant.name} is stale: there is no ${mutant.file}`);
    }
  }
  if (stale.length > 0) throw new Stop(`${stale.join('\nrlx: ')}\nrlx: mend the entry in tests/mutants/, or take it out with a word why`);
}

function chosen(mutants, names) {
  if (names.length === 0) return mutants;
  const fits = (name, pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern);
  const unknown = names.filter((pattern) => !mutants.some(({ name }) => fits(name, pattern)));
  if (unknown.length > 0) throw new Stop(`no mutant is called ${unknown.join(', ')}; --list prints the names`);
  return mutants.filter(({ name }) => names.some((pattern) => fits(name, pattern)));
}

function printList(mutants) {
  for (const { name, file, is, kind, stands } of mutants) console.log(`${name}  (${is}, ${kind}, ${file})\n    ${stands}`);
  console.log(`${mutants.length} mutants`);
}

/** Runs `work` on each item, `jobs` at a time. */
async function inParallel(items, jobs, work) {
  let next = 0;
  const worker = async () => {
    while (next < items.length) await work(items[next++]);
  };
  await Promise.all(Array.from({ length: jobs }, worker));
}

const minutes = (seconds) => (seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`);

/** Runs mutants; answers a row for each. */
async function runMutants(mutants, rust) {
  const rows = new Map();
  const seconds = new Map();
  const begin = performance.now();
  const note = (mutant, noticed) => {
    const row = { name: mutant.name, file: mutant.file, is: mutant.is, kind: mutant.kind, verdict: noticed?.verdict ?? 'survived' };
    if (noticed) row.by = noticed.by;
    else if (mutant.survives) row.why = mutant.survives;
    row.seconds = Number(seconds.get(mutant).toFixed(1));
    rows.set(mutant.name, row);
    const left = (mutants.length - rows.size) * (performance.now() - begin) / 1000 / rows.size;
    const how = noticed ? `${row.verdict === 'timed out' ? 'noticed, it timed out in' : 'killed by'} ${row.by}` : 'SURVIVED';
    console.log(`[${rows.size}/${mutants.length}] ${mutant.name}: ${how} (${row.seconds} s; about ${minutes(left)} left)`);
  };
  const timed = async (mutant, work) => {
    const start = performance.now();
    const noticed = await work();
    seconds.set(mutant, (seconds.get(mutant) ?? 0) + (performance.now() - start) / 1000);
    return noticed;
  };
  const later = [];
  const first = async (mutant, threads) => {
    const isJs = language(mutant) === 'js';
    const noticed = await timed(mutant, () => (isJs ? tryJs(mutant) : tryFirst(mutant, rust, threads)));
    if (noticed || isJs) note(mutant, noticed);
    else later.push(mutant);
  };
  // A software GPU uses every core: one at a time. Others run beside each other, on a core each.
  const onGpu = (mutant) => language(mutant) !== 'js' && firstTests(mutant, rust).some(({ binary }) => binary.gpu);
  const gpu = mutants.filter(onGpu);
  await inParallel(mutants.filter((mutant) => !gpu.includes(mutant)), cpus().length, (mutant) => first(mutant, 1));
  for (const mutant of gpu) await first(mutant);
  if (later.length > 0) say(`${later.length} were not noticed by the tests that should: the wider suite`);
  for (const mutant of later) note(mutant, await timed(mutant, () => tryAll(mutant, rust)));
  return mutants.map(({ name }) => rows.get(name));
}

function report(rows, mutants, out, took, from) {
  const count = (verdict, of = rows) => of.filter((row) => row.verdict === verdict).length;
  const survivors = rows.filter((row) => row.verdict === 'survived');
  const noticed = (of) => of.length - count('survived', of);
  for (const { name, why } of survivors) {
    const { file, stands } = mutants.find((mutant) => mutant.name === name);
    console.log(`survived: ${name} (${file}): ${stands}${why ? `\n    ${why}` : ''}`);
  }
  const share = (100 * noticed(rows) / rows.length).toFixed(1);
  const timedOut = count('timed out');
  console.log(`${noticed(rows)} of ${rows.length} mutants noticed (${share} %), ${timedOut} of them by a time limit; ${survivors.length} survived`);
  if (out) {
    const by = {};
    for (const is of ORIGINS) {
      const of = rows.filter((row) => row.is === is);
      if (of.length > 0) by[is] = { mutants: of.length, noticed: noticed(of) };
    }
    const result = {
      date: new Date().toISOString().slice(0, 10),
      machine: { cpu: cpus()[0]?.model ?? 'unknown', cores: cpus().length },
      ...from,
      rustc: ask('rustc', ['--version']), node: process.version, minutes: Number((took / 60).toFixed(1)),
      mutants: rows.length, killed: count('killed'), timed_out: timedOut, survived: survivors.length, by, rows,
    };
    mkdirSync(dirname(out), { recursive: true });
    const lines = rows.map((row) => `  ${JSON.stringify(row)}`).join(',\n');
    writeFileSync(out, `${JSON.stringify({ ...result, rows: undefined }, null, 1).replace(/\n\}$/, '')},\n "rows": [\n${lines}\n ]\n}\n`);
    say(`written: ${out}`);
  }
  if (survivors.some((row) => !row.why)) process.exitCode = 1;
}

/** cargo-mutants on what changed in Rust since `base`. */
async function changed(base) {
  const { runChanged } = await import('./lib/mutants_changed.mjs');
  await runChanged(base);
}

await main(async () => {
  const args = process.argv.slice(2);
  const take = (flag) => {
    const at = args.indexOf(flag);
    if (at >= 0) args.splice(at, 1);
    return at;
  };
  if (take('--help') >= 0) return console.log(HELP);
  requireNode();
  const isChanged = take('--changed') >= 0;
  if (isChanged) {
    if (args.length > 1) throw new Stop(HELP);
    requireRust();
    return changed(args[0] ?? 'HEAD');
  }
  const [list, only] = [take('--list') >= 0, take('--check') >= 0];
  const at = take('--out');
  const [out] = at >= 0 ? args.splice(at, 1) : [];
  if (at >= 0 && !out) throw new Stop('--out takes the name of a file');
  const option = args.find((arg) => arg.startsWith('--'));
  if (option) throw new Stop(`${option} is no option\n${HELP}`);

  const all = await readList();
  if (list) return printList(chosen(all, args));
  check(all);
  if (only) return say(`every snippet of ${all.length} mutants occurs once in its file`);

  const mutants = chosen(all, args);
  requireRust();
  // Vulkan drivers complain without one.
  process.env.XDG_RUNTIME_DIR ||= mkdtempSync(join(tmpdir(), 'rlx-'));
  const start = performance.now();
  // As the copy is made: the checkout may go on meanwhile.
  const from = { commit: ask('git', ['rev-parse', '--short', 'HEAD']), uncommitted: ask('git', ['status', '--porcelain']) !== '' };
  const { files, written } = writeTree(all);
  say(`the copy in target/mutants/tree has ${files} files, ${written} of them new or changed`);
  const [js, native] = [mutants.some((m) => language(m) === 'js'), mutants.some((m) => language(m) !== 'js')];
  if (js) {
    await step('building the package\'s unit tests', '', buildJs);
    await step('running them without a mutant', '', baselineJs);
  }
  const rust = [];
  if (native) {
    let binaries;
    await step('building the Rust tests', 'about 7 minutes from nothing', async () => {
      binaries = await buildRust();
    });
    await step('running them without a mutant', 'about 8 minutes, unless nothing changed', async () => {
      for (const binary of binaries) {
        const baseline = await baselineOf(binary);
        rust.push({ binary, baseline });
        if (baseline.again) say(`${binary.key}: ${Object.keys(baseline.tests).length} tests pass`);
      }
    });
    for (const mutant of mutants.filter((m) => language(m) !== 'js')) firstTests(mutant, rust);
  }
  const rows = await runMutants(mutants, rust);
  report(rows, mutants, out, (performance.now() - start) / 1000, from);
});
