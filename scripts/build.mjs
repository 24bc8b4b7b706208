// Builds what a page downloads: the wasm module, the TypeScript package, and (with `demo`) the demo.
//
// We call cargo, wasm-bindgen and wasm-opt ourselves and do not use wasm-pack: it would run the
// same three, download its own copies, and choose the package's layout, which is ours
// (`wasm-bindgen --target web` into the package's dist, beside what tsc writes).

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  ask, ensureNpm, ensureTargets, ensureWasmBindgen, inRoot, main, requireNode, requireRust, run, step, Stop,
} from './lib/tools.mjs';

const WASM = 'wasm32-unknown-unknown';
/** TypeScript's compiler, run without npx, which writes about its own settings. */
export const tsc = inRoot('node_modules', 'typescript', 'bin', 'tsc');
const dist = inRoot('crates', 'rlx-wasm', 'js', 'dist');
/** The post-1.0 features that rustc already uses for this target; wasm-opt takes no others by default. */
const WASM_FEATURES = [
  '--enable-simd', '--enable-bulk-memory', '--enable-bulk-memory-opt', '--enable-sign-ext', '--enable-mutable-globals',
  '--enable-nontrapping-float-to-int', '--enable-reference-types', '--enable-multivalue',
];

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
 * The module's builds: name in dist, glue, folder of cargo's (one each, for flags are not part of
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

/** Messages of panics name source files: of a crate its own path, not where this machine keeps it. */
const registry = join(process.env.CARGO_HOME ?? join(homedir(), '.cargo'), 'registry', 'src');

/** One build: its glue's text, and the promise of its module in dist. */
async function buildOne(bindgen, { name, target, flags, features, cargo = [], more = [] }) {
  const rustflags = `target.${WASM}.rustflags=${JSON.stringify([...flags, `--remap-path-prefix=${registry}=crates`])}`;
  await step(`building ${name}.wasm`, '1 to 2 minutes the first time', () =>
    run('cargo', [
      ...cargo, 'build', '-p', 'rlx-wasm', '--profile', 'wasm', '--target', WASM, '--target-dir', inRoot(target),
      '--config', rustflags, ...more,
    ]));
  const bound = inRoot(target, WASM, 'bindgen');
  await run(bindgen, [
    inRoot(target, WASM, 'wasm', 'rlx_wasm.wasm'), '--target', 'web', '--out-dir', bound,
    '--out-name', 'rlx_wasm', '--no-typescript', '--remove-producers-section', '--omit-default-module-path',
  ]);
  const optimised = step(`optimising ${name}.wasm`, 'about 20 s', () => run(process.execPath, [
    inRoot('node_modules', 'binaryen', 'bin', 'wasm-opt'), join(bound, 'rlx_wasm_bg.wasm'), '-Os',
    ...WASM_FEATURES, ...features, '-o', join(dist, `${name}.wasm`),
  ]));
  optimised.catch(() => {}); // the caller awaits it, after the next build
  return { text: readFileSync(join(bound, 'rlx_wasm.js'), 'utf8'), optimised };
}

/** The threaded builds' toolchain. */
async function ensureNightly() {
  if (ask('cargo', [`+${NIGHTLY}`, '--version']) !== null) return;
  if (ask('rustup', ['--version']) === null) throw new Stop(`the threaded builds need ${NIGHTLY}, and there is no rustup to install it: see https://rustup.rs`);
  await step(`installing ${NIGHTLY}`, 'about 20 s', () =>
    run('rustup', ['toolchain', 'install', NIGHTLY, '--profile', 'minimal', '-c', 'rust-src', '-t', WASM]));
}

/** All builds, and the glue: one file for two builds. */
export async function buildWasm() {
  requireRust();
  await ensureTargets(WASM);
  const bindgen = await ensureWasmBindgen();
  mkdirSync(dist, { recursive: true });
  await ensureNightly();
  const glues = {};
  const modules = [];
  for (const build of BUILDS) {
    const { text, optimised } = await buildOne(bindgen, build);
    modules.push(optimised);
    glues[build.glue] ??= text;
    if (text !== glues[build.glue]) throw new Stop(`wasm-bindgen made other glue for ${build.name}.wasm than for its sister, and the package ships one`);
  }
  await Promise.all(modules);
  for (const [name, text] of Object.entries(glues)) writeFileSync(join(dist, `${name}.js`), text);
}

export async function buildPackage() {
  await step('building the package', '', () => run(process.execPath, [tsc, '-p', 'crates/rlx-wasm/js']));
}

export async function buildDemo() {
  const { build } = await import('vite');
  await step('building the demo', '', () => build({ root: inRoot('www'), logLevel: 'warn' }));
}

export async function buildAll() {
  requireNode();
  await ensureNpm();
  rmSync(dist, { recursive: true, force: true });
  await buildWasm();
  await buildPackage();
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main(async () => {
    await buildAll();
    if (process.argv.includes('demo')) await buildDemo();
  });
}
