// Builds what a page downloads: the wasm module, the TypeScript package, and (with `demo`) the demo.
//
// We call cargo, wasm-bindgen and wasm-opt ourselves and do not use wasm-pack: it would run the
// same three, download its own copies, and choose the package's layout, which is ours
// (`wasm-bindgen --target web` into the package's dist, beside what tsc writes).

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { asFactory } from './lib/glue.mjs';
import {
  ask, atOnce, ensureBindgen, ensureNpm, ensureTargets, inRoot, main, requireNode, requireRust, run, step, Stop,
} from './lib/tools.mjs';
import { withoutCInterface } from './lib/c_interface.mjs';

export const WASM = 'wasm32-unknown-unknown';
/** TypeScript's compiler, run without npx, which writes about its own settings. */
export const tsc = inRoot('node_modules', 'typescript', 'bin', 'tsc');
export const dist = inRoot('crates', 'rlx-wasm', 'js', 'dist');
/** The post-1.0 features that rustc already uses for this target; wasm-opt takes no others by default. */
const WASM_FEATURES = [
  '--enable-simd', '--enable-bulk-memory', '--enable-bulk-memory-opt', '--enable-sign-ext', '--enable-mutable-globals',
  '--enable-nontrapping-float-to-int', '--enable-reference-types', '--enable-multivalue',
];

/**
 * For bytes, compressed ones: functions stand in the order of their names, so that a generic one's copies are within
 * gzip's window (32 kB). No access below address 1024 is meant, so that constants go into offsets: rustc has the stack
 * end there, and what would wrap around into it traps instead.
 */
const SMALL = ['-Os', '--low-memory-unused', '--reorder-functions-by-name'];

/**
 * std itself must be built with atomics, which only nightly does; pinned by date. Workers share
 * memory that the page makes: imported, its size the same for both builds, for one glue.
 */
export const NIGHTLY = 'nightly-2026-10-30';
const THREADS = {
  glue: 'rlx_wasm_threads',
  cargo: [`+${NIGHTLY}`],
  more: ['-Z', 'build-std=std,panic_abort'],
  features: ['--enable-threads'],
};
const THREADS_FLAGS = [
  '-C', 'target-feature=+atomics,+bulk-memory',
  ...[
    '--shared-memory', '--import-memory', '--initial-memory=4194304', '--max-memory=4294967296',
    '--export=__wasm_init_tls', '--export=__tls_size', '--export=__tls_align', '--export=__tls_base',
  ].flatMap((argument) => ['-C', `link-arg=${argument}`]),
];
const RELAXED = ['-C', 'target-feature=+relaxed-simd'];

/**
 * The module's builds: name in dist, glue, folder of cargo's (one for each set of flags, for flags are not part of
 * the names of what cargo keeps), flags beside .cargo/config.toml's, wasm-opt's features.
 */
export const BUILDS = [
  { name: 'rlx', glue: 'rlx_wasm', target: 'target', flags: [], features: [] },
  { name: 'rlx-relaxed', glue: 'rlx_wasm', target: 'target/relaxed', flags: RELAXED, features: ['--enable-relaxed-simd'] },
  { name: 'rlx-threads', target: 'target/threads', flags: THREADS_FLAGS, ...THREADS },
  {
    name: 'rlx-threads-relaxed', target: 'target/threads-relaxed', flags: [...THREADS_FLAGS, ...RELAXED], ...THREADS,
    features: [...THREADS.features, '--enable-relaxed-simd'],
  },
];

/**
 * The builds for networks that are no language models: one is fetched when a page loads such a session, and by no other.
 * What they and the chat's build both read is compiled once: the folders are the same.
 */
const OTHERS = { glue: 'rlx_graphs', more: ['--no-default-features', '--features', 'graphs'] };
export const GRAPHS = [
  { name: 'rlx-graphs', target: 'target', flags: [], features: [], ...OTHERS },
  { name: 'rlx-graphs-relaxed', target: 'target/relaxed', flags: RELAXED, features: ['--enable-relaxed-simd'], ...OTHERS },
];

/** What holds answers to a form: fetched when a call asks for one. */
export const GRAMMAR = [
  { name: 'rlx-grammar', crate: 'rlx-grammar', glue: 'rlx_grammar', target: 'target', flags: [], features: [] },
];

/** Messages of panics name source files: of a crate its own path, not where this machine keeps it. */
const registry = join(process.env.CARGO_HOME ?? join(homedir(), '.cargo'), 'registry', 'src');

/** What this process has built so far: each thing is made once, however often it is asked for. */
const made = new Map();
const once = (what, work) => {
  if (!made.has(what)) made.set(what, work());
  return made.get(what);
};

/** What a folder's builds have written under one name is used up before the next one begins. */
const folders = new Map();
const inFolder = (folder, work) => {
  const done = (folders.get(folder) ?? Promise.resolve()).then(work);
  folders.set(folder, done.catch(() => {}));
  return done;
};

/** One build and its glue, in dist; `usually` says how long that takes on two cores with nothing compiled. */
export const buildWasm = (name) => once(name, async () => {
  const { target, flags, features, glue, crate = 'rlx-wasm', cargo = [], more = [] } = [...BUILDS, ...GRAPHS, ...GRAMMAR].find((build) => build.name === name);
  const usually = existsSync(inRoot(target, WASM)) ? 'under a minute' : '1 to 2 minutes the first time';
  await once('target', () => ensureTargets(WASM));
  // Compiled beside the module, which takes longer.
  const bindgen = once('bindgen', ensureBindgen);
  bindgen.catch(() => {}); // awaited below
  if (cargo.length > 0) await once('nightly', ensureNightly);
  const rustflags = `target.${WASM}.rustflags=${JSON.stringify([...flags, `--remap-path-prefix=${registry}=crates`])}`;
  const bound = inRoot(target, WASM, 'bindgen', name);
  await inFolder(target, async () => {
    await step(`building ${name}.wasm`, usually, () =>
      run('cargo', [
        ...cargo, 'build', '-p', crate, '--profile', 'wasm', '--target', WASM, '--target-dir', inRoot(target),
        '--config', rustflags, ...more,
      ]));
    await run(await bindgen, [inRoot(target, WASM, 'wasm', `${crate.replace('-', '_')}.wasm`), bound]);
  });
  if (crate === 'rlx-grammar') await withoutCInterface(join(bound, 'rlx_wasm_bg.wasm'));
  mkdirSync(dist, { recursive: true });
  await step(`optimising ${name}.wasm`, 'about 20 s', () => run(process.execPath, [
    inRoot('node_modules', 'binaryen', 'bin', 'wasm-opt'), join(bound, 'rlx_wasm_bg.wasm'), ...SMALL,
    ...WASM_FEATURES, ...features, '-o', join(dist, `${name}.wasm`),
  ]));
  const text = asFactory(readFileSync(join(bound, 'rlx_wasm.js'), 'utf8'));
  const sister = glues.get(glue) ?? text;
  if (text !== sister) throw new Stop(`wasm-bindgen made other glue for ${name}.wasm than for its sister, and the package ships one`);
  glues.set(glue, text);
  writeFileSync(join(dist, `${glue}.js`), text);
});

/** Texts by the names of files: two builds share one. */
const glues = new Map();

/** The threaded builds' toolchain. */
export async function ensureNightly() {
  if (ask('cargo', [`+${NIGHTLY}`, '--version']) !== null) return;
  if (ask('rustup', ['--version']) === null) throw new Stop(`the threaded builds need ${NIGHTLY}, and there is no rustup to install it: see https://rustup.rs`);
  await step(`installing ${NIGHTLY}`, 'about 20 s', () =>
    run('rustup', ['toolchain', 'install', NIGHTLY, '--profile', 'minimal', '-c', 'rust-src', '-t', WASM]));
}

export async function buildPackage() {
  await step('building the package', '', () => run(process.execPath, [tsc, '-p', 'crates/rlx-wasm/js']));
}

/** Each page apart, so that none downloads scripts in more pieces because of another. They share the modules' files. */
export async function buildDemo() {
  const { build } = await import('vite');
  await step('building the demo', '', async () => {
    const usual = { root: inRoot('www'), logLevel: 'warn' };
    await build(usual);
    const beside = ['peers.html', 'devices.html'].map((page) => inRoot('www', page));
    await build({ ...usual, publicDir: false, build: { emptyOutDir: false, rolldownOptions: { input: beside } } });
  });
}

export async function buildAll() {
  requireNode();
  await ensureNpm();
  requireRust();
  rmSync(dist, { recursive: true, force: true });
  // Two beside each other: the last minute of each is one thread's.
  await atOnce(2, [...BUILDS, ...GRAPHS, ...GRAMMAR].map(({ name }) => () => buildWasm(name)));
  await buildPackage();
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main(async () => {
    await buildAll();
    if (process.argv.includes('demo')) await buildDemo();
  });
}
