// The stages of `npm test`.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildAll, buildDemo, buildPackage, ensureNightly, tsc, WASM } from '../build.mjs';
import { sizeReport } from '../size.mjs';
import { Tally } from './tally.mjs';
import { ask, atOnce, ensureDebian, ensureTargets, inRoot, NEON, run, say, Stop, tee } from './tools.mjs';

const DEBIAN_PACKAGES = {
  chromium: '/usr/bin/chromium', 'mesa-vulkan-drivers': '/usr/share/vulkan/icd.d', libvulkan1: null, 'g++': '/usr/bin/g++',
  // AMD's compilers, which need no card.
  'clang-19': '/usr/bin/clang-19', 'libamdhip64-dev': null, 'libhiprtc-builtins5': null, 'rocm-device-libs': null,
};
/** Files of browser tests that take minutes, the longest first: begun last, one lane would wait for them. */
const SLOW = ['parity', 'session', 'worker', 'segment'];
/**
 * Files of browser tests that the stage `wide` runs, and no lane: with them a run takes longer than CI has. What they
 * look at is rare in a page's life (GPUs that compute wrong values or are lost, modules that trap, tabs that are killed)
 * or has a cheaper test in every run: native ones of self-tests, logits and folders, `parity` in a page, and `demo_draw`.
 */
const WIDE = [
  'contest', 'deaths', 'demo_benchmark', 'demo_webgpu', 'draw', 'flat', 'inspect_trace', 'keeping', 'late', 'lies', 'loading_servers',
  'logits', 'lost', 'recorded_folders', 'selftest', 'shared_device', 'templates', 'trap', 'tune',
];
const browserTest = (name) => join('tests/browser', `${name}.test.mjs`);
/** Milliseconds of a file of browser tests; the longest takes five minutes. */
const FILE_LIMIT = 1_200_000;
const NO_STD_TARGET = 'wasm32v1-none';
const NO_STD = ['-p', 'rlx-core', '--no-default-features', '--features', 'text,parse,reference,vision,audio,linalg,quant,encode,encoders', '--target', NO_STD_TARGET];

/** Runs tests and adds up what they say, skips included. */
async function tests(tally, command, args, skips) {
  const folder = mkdtempSync(join(tmpdir(), 'rlx-skips-'));
  const file = join(folder, 'skips');
  try {
    const { code, text } = await tee(command, skips(args, file), { env: { ...process.env, RLX_SKIPS: file } });
    tally.add(text, existsSync(file) ? readFileSync(file, 'utf8') : '');
    if (code !== 0) throw new Stop(`${command} ${args.slice(0, 3).join(' ')} failed`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Rust's tests write what they skip into the file that RLX_SKIPS names. */
const cargoTests = (tally, ...args) => tests(tally, 'cargo', ['test', ...args], (all) => all);

/** Node's runner tells a reporter of ours what it skips. */
const nodeTests = (tally, ...args) => tests(tally, process.execPath, args, (all, file) => [
  '--test',
  '--test-reporter=spec', '--test-reporter-destination=stdout',
  `--test-reporter=${inRoot('scripts', 'lib', 'skips_reporter.mjs')}`, `--test-reporter-destination=${file}`,
  ...all,
]);

/** A check without tests of its own counts as one. */
async function check(tally, ...command) {
  try {
    await run(command[0], command.slice(1));
    tally.passed += 1;
  } catch (error) {
    tally.failed += 1;
    throw error;
  }
}

function testFiles(folder, suffix) {
  const files = readdirSync(inRoot(folder)).filter((name) => name.endsWith(suffix)).sort();
  if (files.length === 0) throw new Stop(`${folder} has no tests`);
  return files.map((name) => join(folder, name));
}

/** Made once for all stages that need it. */
const made = new Map();
function once(work) {
  if (!made.has(work)) made.set(work, work());
  return made.get(work);
}

/** Debian's Chromium and a software Vulkan driver; installed if we may, else named. */
async function system() {
  const missing = Object.entries(DEBIAN_PACKAGES).filter(([name, path]) => {
    if (ask('dpkg-query', ['-W', '-f=${Status}', name])?.includes('install ok')) return false;
    return !(path && existsSync(path));
  }).map(([name]) => name);
  if (missing.length === 0) return;
  await ensureDebian('the tests of GPUs and browsers', missing, ', or install a Chromium at /usr/bin/chromium and a Vulkan driver');
}

/**
 * The command line and the examples, as Rust's own tests build them: one build for all, where a release build, or one
 * of a single crate with its own choice of features, would be another of the same.
 */
const nativeBuild = () => run('cargo', ['test', '--workspace', '--no-run']);

/** Files of browser tests that no lane has begun; the slowest of them first. */
let waiting;

/**
 * The browser's tests, a file at a time. Both lanes end with this stage, and each takes the next file when it is done
 * with one, so that none stands idle while the other has a list left.
 */
async function browser(tally) {
  await once(buildAll);
  await once(buildDemo);
  await once(nativeBuild); // pages print the fingerprints that the command line prints
  if (!waiting) {
    const wide = WIDE.map(browserTest);
    const all = testFiles('tests/browser', '.test.mjs').filter((file) => !wide.includes(file));
    const slow = SLOW.map(browserTest).filter((file) => all.includes(file));
    waiting = [...slow, ...all.filter((file) => !slow.includes(file))];
  }
  for (let file = waiting.shift(); file; file = waiting.shift()) {
    const began = performance.now();
    await browserFile(tally, file);
    tally.times.push({ what: file, ms: performance.now() - began });
  }
}

/**
 * One file of the browser's tests. It runs once more, in a new browser, if a page stopped answering or at most two tests
 * failed: these pages have a GPU in software, and the machine may be busy with other work. A file that passes only then
 * is listed as unsteady at the end, so that the defect, of the test or of what it tests, is seen and mended.
 */
async function browserFile(tally, file) {
  const first = new Tally();
  try {
    await nodeTests(first, `--test-timeout=${FILE_LIMIT}`, file);
  } catch (error) {
    if (!(error instanceof Stop && first.mayRunAgain())) {
      tally.merge(first);
      throw error;
    }
    const what = first.stopped ? 'a page stopped answering' : `failed: ${[...first.failures].join('; ')}`;
    say(`${file}: ${what}; the file runs once more`);
    await nodeTests(tally, `--test-timeout=${FILE_LIMIT}`, file);
    tally.unsteady.push(`${file}: ${what}, and passed the second time`);
    return;
  }
  tally.merge(first);
}

/** Names and work of all stages. */
export const STAGES = {
  format: (tally) => check(tally, 'cargo', 'fmt', '--all', '--check'),
  clippy: async (tally) => {
    await check(tally, 'cargo', 'clippy', '--workspace', '--all-targets', '--', '-D', 'warnings');
    await check(tally, 'cargo', 'clippy', '-p', 'rlx-wasm', '--target', WASM, '--', '-D', 'warnings');
  },
  // The same of builds whose code others have nearly all of. In no lane: the stage `wide` begins with it.
  clippy_wide: async (tally) => {
    await check(tally, 'cargo', 'clippy', '-p', 'rlx-wasm', '--target', WASM, '--no-default-features', '--features', 'graphs', '--', '-D', 'warnings');
    // Tools of scripts/proof.mjs and scripts/aot.mjs.
    await check(tally, 'cargo', 'clippy', '-p', 'rlx-native', '--features', 'aot,emulator', '--all-targets', '--', '-D', 'warnings');
    // As it is tested under qemu by scripts/neon.mjs.
    await check(tally, 'cargo', 'clippy', '-p', 'rlx-cpu', '--target', NEON, '--', '-D', 'warnings');
  },
  no_std: (tally) => check(tally, 'cargo', 'check', ...NO_STD),
  rust: (tally) => cargoTests(tally, '--workspace', '--no-fail-fast'),
  tint: async (tally) => {
    // Every kernel the emitter can print, under the compiler that Chromium and Dawn have.
    const folder = mkdtempSync(join(tmpdir(), 'rlx-wgsl-'));
    await once(nativeBuild);
    await run(inRoot('target', 'debug', 'examples', 'emit'), [folder]);
    const half = (share) => () => check(tally, process.execPath, 'crates/rlx-webgpu/tests/tint.mjs', folder, share);
    await atOnce(2, [half('1/2'), half('2/2')]);
    rmSync(folder, { recursive: true, force: true });
  },
  mutants: (tally) => check(tally, process.execPath, 'scripts/mutants.mjs', '--check'),
  types: async (tally) => {
    await buildPackage(); // the demo's modules import it, and are checked against its declarations
    await check(tally, process.execPath, tsc, '-p', 'crates/rlx-wasm/js/tsconfig.test.json');
    // A test that fails may leave a port open, with which its process would stay for ever.
    const bounds = ['--test-timeout=60000', '--test-force-exit'];
    await nodeTests(tally, ...bounds, ...testFiles('crates/rlx-wasm/js/.test/test', '.test.js'), ...testFiles('tests/scripts', '.test.mjs'), ...testFiles('tests/www', '.test.mjs'));
    await check(tally, process.execPath, tsc, '-p', 'www');
  },
  package: async (tally) => {
    await once(buildAll);
    await once(buildDemo);
    tally.passed += 1;
  },
  native: async (tally) => {
    await once(nativeBuild);
    tally.passed += 1;
  },
  size: async (tally) => {
    await once(buildAll);
    await once(buildDemo);
    await sizeReport();
    tally.passed += 1;
  },
  // Fresh projects that have installed the packed package.
  projects: async (tally) => {
    await once(buildAll);
    await nodeTests(tally, 'tests/package/package.test.mjs');
  },
  // Those whose tools come from the registry, or which need other browsers. In no lane.
  projects_wide: async (tally) => {
    await once(buildAll);
    await once(buildDemo);
    await nodeTests(tally, '--test-concurrency=1', 'tests/package/wide.test.mjs', 'tests/package/demo_browsers.test.mjs');
  },
  browser,
  runtimes: async (tally) => {
    await once(buildAll);
    await once(nativeBuild);
    await nodeTests(tally, '--test-concurrency=1', ...testFiles('tests/runtimes', '.test.mjs'));
  },
  // Slow devices run every case of the shared list. This stage is in no lane: it runs only if it is named.
  wide: async (tally) => {
    process.env.RLX_WIDE = '1';
    await STAGES.clippy_wide(tally);
    await once(buildAll);
    await cargoTests(tally, '--workspace', '--no-fail-fast', 'parity::', '--', '--include-ignored');
    await cargoTests(tally, '-p', 'rlx-native', '--no-fail-fast', 'drift::', '--', '--include-ignored');
    await cargoTests(tally, '--workspace', '--no-fail-fast', '--', '--ignored', 'selftest::', 'robust::', 'rings::', 'slide::');
    await cargoTests(tally, '-p', 'rlx-native', '--no-fail-fast', 'convert::');
    // Files of tests that try fewer cases in every run: `is_wide` and `first_of` of tests/support/wide.rs.
    const fewer = [
      'attention_split', 'delta_chunks', 'experts', 'fit', 'functions', 'graphs', 'kv_blocks', 'lanes', 'matmul', 'matmul_rows', 'model',
      'operators', 'parts', 'recurrent',
    ];
    await cargoTests(tally, '--workspace', '--no-fail-fast', '--', ...fewer.map((file) => `${file}::`));
    const files = [...['parity', 'session', ...WIDE].map(browserTest), 'tests/runtimes/parity.test.mjs'];
    await once(buildDemo);
    await nodeTests(tally, '--test-concurrency=1', ...files);
  },
};

/** Stages in the order they run in; a lane beside the other. Each stage is in one lane, but for the last, whose work they share. */
export const LANES = [
  ['format', 'mutants', 'clippy', 'no_std', 'rust', 'tint', 'runtimes', 'browser'],
  ['types', 'package', 'size', 'projects', 'native', 'browser'],
];

/** Installs what these stages need, before lanes could both try to. */
export async function prepare(stages) {
  const needs = (...names) => names.some((name) => stages.includes(name));
  const targets = [];
  if (needs('clippy_wide', 'wide')) targets.push(NEON);
  if (needs('no_std')) targets.push(NO_STD_TARGET);
  if (needs('clippy', 'clippy_wide', 'package', 'size', 'projects', 'projects_wide', 'browser', 'runtimes', 'wide')) targets.push(WASM);
  await ensureTargets(...targets);
  if (needs('package', 'size', 'projects', 'projects_wide', 'browser', 'runtimes', 'wide')) await ensureNightly();
  if (needs('rust', 'projects', 'projects_wide', 'browser', 'runtimes', 'wide')) await system();
}
