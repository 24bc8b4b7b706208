// Builds the copy's test binaries, runs them without a mutant, and runs tests under one.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { inRoot, run, say, Stop } from './tools.mjs';
import { folder, idOf, tree } from './mutants_tree.mjs';

const CRATES = ['rlx-core', 'rlx-cpu', 'rlx-webgpu', 'rlx-native'];
const JS = 'crates/rlx-wasm/js';

/**
 * Tests that look at texts and not at behaviour: sources have switches in the copy, and a recorded
 * hash changes with any change, also one that is right. They notice nothing here.
 */
const OF_TEXTS = [
  /(^|::)tidy::/,
  /fact_002_04_no_option_comes_from_the_environment$/,
  /texts_are_the_recorded_ones$/,
  /the_decode_program_of_the_default_model_has_the_recorded_fingerprint$/,
];

/** Seconds of a test from which on it has a process of its own in the wider suite. */
const LONG = 2;

/** A process's lines as they come; `line` may answer true to end it. Resolves to its status and lines. */
function watch(command, args, { cwd, env, seconds, line = () => false }) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    const end = { code: null, signal: null, late: false, stopped: false, lines: [] };
    let rest = '';
    // The whole group: a test of the command line has children.
    const stop = () => {
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has ended by itself.
      }
    };
    const timer = seconds && setTimeout(() => {
      end.late = true;
      stop();
    }, seconds * 1000);
    const take = (part) => {
      const lines = (rest + part).split('\n');
      rest = lines.pop();
      for (const text of lines) {
        end.lines.push(text);
        if (!end.stopped && line(text)) {
          end.stopped = true;
          stop();
        }
      }
    };
    child.stdout.setEncoding('utf8').on('data', take);
    child.stderr.setEncoding('utf8').on('data', (part) => end.lines.push(...part.split('\n')));
    child.on('error', (error) => reject(new Stop(`${command} could not be started: ${error.message}`)));
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (rest) take('\n');
      resolve({ ...end, code, signal });
    });
  });
}

/** Builds all test binaries of the copy: `[{ key, path, cwd, gpu }]`. */
export async function buildRust() {
  const env = { ...process.env, CARGO_TARGET_DIR: join(folder, 'target') };
  const args = ['test', '--no-run', '--message-format=json-render-diagnostics', ...CRATES.flatMap((name) => ['-p', name])];
  let out = '';
  await new Promise((resolve, reject) => {
    const child = spawn('cargo', args, { cwd: tree, env, stdio: ['ignore', 'pipe', 'inherit'] });
    child.stdout.setEncoding('utf8').on('data', (part) => {
      out += part;
    });
    child.on('error', (error) => reject(new Stop(`cargo could not be started: ${error.message}`)));
    child.on('close', (code) => (code === 0 ? resolve() : reject(new Stop('the copy with the mutants does not build'))));
  });
  const binaries = [];
  for (const line of out.split('\n')) {
    if (!line.startsWith('{')) continue;
    const message = JSON.parse(line);
    if (message.reason !== 'compiler-artifact' || !message.profile.test || !message.executable) continue;
    const crate = CRATES.find((name) => message.manifest_path.endsWith(`crates/${name}/Cargo.toml`));
    if (!crate) continue;
    const [kind] = message.target.kind;
    const name = kind === 'test' ? message.target.name : kind === 'bin' ? 'bin' : 'lib';
    binaries.push({
      key: `${crate.slice(4)}:${name}`, path: message.executable, cwd: dirname(message.manifest_path),
      gpu: crate === 'rlx-webgpu' || crate === 'rlx-native',
    });
  }
  // The quick ones first.
  const rank = ({ key }) => CRATES.indexOf(`rlx-${key.split(':')[0]}`) * 2 + (key.endsWith(':lib') ? 0 : 1);
  const order = (b) => (b.key.startsWith('webgpu') ? 100 : 0) + rank(b);
  return binaries.sort((a, b) => order(a) - order(b));
}

export async function buildJs() {
  const tsc = inRoot('node_modules', 'typescript', 'bin', 'tsc');
  await run(process.execPath, [tsc, '-p', join(tree, JS, 'tsconfig.test.json')], { cwd: tree });
}

const RESULT = /^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?: <([\d.]+)s>)?/;

/**
 * Runs a binary without a mutant: its tests with their seconds, and which switches each asked. All
 * must pass. A binary that has not changed since is not run again.
 */
export async function baselineOf(binary) {
  const kept = join(folder, 'baseline', `${binary.key.replace(':', '-')}.json`);
  const { mtimeMs, size } = statSync(binary.path);
  const stamp = `${binary.path} ${mtimeMs} ${size}`;
  if (existsSync(kept)) {
    const old = JSON.parse(readFileSync(kept, 'utf8'));
    if (old.stamp === stamp) return { ...old, again: false };
  }
  mkdirSync(dirname(kept), { recursive: true });
  const reachedFile = join(folder, 'baseline', `${binary.key.replace(':', '-')}.reached`);
  rmSync(reachedFile, { force: true });
  // Times of tests are printed by unstable options, which this variable allows on stable too.
  const env = { RUSTC_BOOTSTRAP: '1', RLX_MUTANTS_REACHED: reachedFile };
  const skip = ['-Z', 'unstable-options', '--report-time'];
  const { code, lines } = await watch(binary.path, skip, { cwd: binary.cwd, env });
  const tests = {};
  const failed = [];
  for (const line of lines) {
    const [, name, how, seconds] = RESULT.exec(line) ?? [];
    if (!name || how === 'ignored' || OF_TEXTS.some((t) => t.test(name))) continue;
    if (how === 'FAILED') failed.push(name);
    else tests[name] = Number(seconds ?? 0);
  }
  if (failed.length > 0) {
    // Noting switches takes time, and tests run beside each other: one of time may fail for that.
    const again = await watch(binary.path, ['--exact', '--test-threads=1', ...failed], { cwd: binary.cwd });
    if (again.code !== 0) {
      console.error(again.lines.slice(-80).join('\n'));
      throw new Stop(`without a mutant ${binary.key} fails ${failed.join(', ')}: mend that first`);
    }
    say(`${binary.key}: ${failed.join(', ')} passes only when it runs alone, and is left out`);
  }
  if (code !== 0 && !lines.some((line) => RESULT.exec(line)?.[2] === 'FAILED')) {
    console.error(lines.slice(-80).join('\n'));
    throw new Stop(`without a mutant ${binary.key} ends with ${code}`);
  }
  // A switch that another thread asked, or a child, may have been asked for any of the tests.
  const reached = {};
  const noted = existsSync(reachedFile) ? readFileSync(reachedFile, 'utf8').split('\n').filter(Boolean) : [];
  for (const line of noted) {
    const at = line.indexOf(' ');
    const [id, thread] = [line.slice(0, at), line.slice(at + 1)];
    if (OF_TEXTS.some((t) => t.test(thread))) continue;
    (reached[id] ??= new Set()).add(thread in tests ? thread : '*');
  }
  for (const id of Object.keys(reached)) reached[id] = [...reached[id]];
  const baseline = { stamp, tests, reached };
  writeFileSync(kept, JSON.stringify(baseline));
  return { ...baseline, again: true };
}

/** The tests of a binary that could notice a mutant: those that ask its switch. */
export function couldNotice(baseline, mutant) {
  const reached = baseline.reached[idOf(mutant.name)] ?? [];
  return reached.includes('*') ? Object.keys(baseline.tests) : reached;
}

/** Runs tests of a binary under a mutant: null, or what noticed it. */
async function runTests(binary, baseline, names, mutant, threads) {
  if (names.length === 0) return null;
  const expected = names.reduce((sum, name) => sum + baseline.tests[name], 0);
  const env = { RLX_MUTANT: mutant.name, RLX_MUTANT_ID: String(idOf(mutant.name)), ...(threads ? { RUST_TEST_THREADS: String(threads) } : {}) };
  let by = null;
  const end = await watch(binary.path, ['--exact', ...names], {
    cwd: binary.cwd, env, seconds: 60 + 10 * expected,
    line: (text) => {
      const [, name, how] = RESULT.exec(text) ?? [];
      if (how === 'FAILED') by = name;
      return by !== null;
    },
  });
  if (by !== null) return { verdict: 'killed', by: `${binary.key} ${by}` };
  if (end.late) return { verdict: 'timed out', by: `${binary.key}, ${names.length === 1 ? names[0] : `one of ${names.length} tests`}` };
  if (end.code !== 0) return { verdict: 'killed', by: `${binary.key}: the process ended with ${end.signal ?? end.code}` };
  return null;
}

/** A mutant's `tests`: `[[binary, names]]`. Throws a sentence when one names nothing. */
export function firstTests(mutant, rust) {
  return mutant.tests.map((text) => {
    const [key, filter = ''] = text.split(' ');
    const entry = rust.find(({ binary }) => binary.key === key);
    const names = entry && Object.keys(entry.baseline.tests).filter((name) => name.includes(filter));
    if (!names?.length) throw new Stop(`the mutant ${mutant.name} is stale: no test is called ${text}`);
    const could = couldNotice(entry.baseline, mutant);
    return { ...entry, names: names.filter((name) => could.includes(name)) };
  });
}

/** Runs the tests that should notice a Rust or WGSL mutant. */
export async function tryFirst(mutant, rust, threads) {
  for (const { binary, baseline, names } of firstTests(mutant, rust)) {
    const noticed = await runTests(binary, baseline, names, mutant, threads);
    if (noticed) return noticed;
  }
  return null;
}

/** Runs every other test of every binary that asks the mutant's switch, the short ones first. */
export async function tryAll(mutant, rust) {
  const done = new Set(firstTests(mutant, rust).flatMap(({ binary, names }) => names.map((name) => `${binary.key} ${name}`)));
  const rest = rust.map(({ binary, baseline }) => ({
    binary, baseline, names: couldNotice(baseline, mutant).filter((name) => !done.has(`${binary.key} ${name}`)),
  }));
  for (const { binary, baseline, names } of rest) {
    const noticed = await runTests(binary, baseline, names.filter((name) => baseline.tests[name] < LONG), mutant);
    if (noticed) return noticed;
  }
  const long = rest.flatMap(({ binary, baseline, names }) =>
    names.filter((name) => baseline.tests[name] >= LONG).map((name) => ({ binary, baseline, name })));
  long.sort((a, b) => a.baseline.tests[a.name] - b.baseline.tests[b.name]);
  for (const { binary, baseline, name } of long) {
    const noticed = await runTests(binary, baseline, [name], mutant);
    if (noticed) return noticed;
  }
  return null;
}

const FAILED = /^\s*not ok \d+ - (.*)$/;

/** Runs unit tests of the package: null, or what noticed the mutant. */
async function runJs(files, mutant) {
  const at = join(tree, JS, '.test', 'test');
  let by = null;
  const end = await watch(process.execPath, ['--test', '--test-reporter=tap', ...files.map((file) => join(at, file))], {
    cwd: join(tree, JS), env: mutant ? { RLX_MUTANT: mutant.name } : {}, seconds: 120,
    line: (text) => {
      by ??= FAILED.exec(text)?.[1] ?? null;
      return by !== null;
    },
  });
  if (by !== null) return { verdict: 'killed', by: `js ${by}`, lines: end.lines };
  if (end.late) return { verdict: 'timed out', by: `js ${files.join(', ')}` };
  if (end.code !== 0) return { verdict: 'killed', by: `js: node ended with ${end.signal ?? end.code}`, lines: end.lines };
  return null;
}

const jsFiles = () => readdirSync(join(tree, JS, '.test', 'test')).filter((name) => name.endsWith('.test.js')).sort();

/** All unit tests of the package must pass without a mutant. */
export async function baselineJs() {
  const noticed = await runJs(jsFiles(), null);
  if (!noticed) return;
  console.error(noticed.lines?.slice(-60).join('\n'));
  throw new Stop(`without a mutant the package's unit tests fail: ${noticed.by}`);
}

/** Runs a JS mutant against the test files that should notice it, then against all. */
export async function tryJs(mutant) {
  const all = jsFiles();
  const first = mutant.tests.map((text) => {
    const file = `${text.split(' ')[1]}.test.js`;
    if (!all.includes(file)) throw new Stop(`the mutant ${mutant.name} is stale: there is no ${file}`);
    return file;
  });
  return (await runJs(first, mutant)) ?? runJs(all.filter((file) => !first.includes(file)), mutant);
}

export { say };
