// Builds what a page downloads: the wasm module, the TypeScript package, and (with `demo`) the demo.
//
// We call cargo, wasm-bindgen and wasm-opt ourselves and do not use wasm-pack: it would run the
// same three, download its own copies, and choose the package's layout, which is ours
// (`wasm-bindgen --target web` into the package's dist, beside what tsc writes).

import { mkdirSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  ensureNpm, ensureTargets, ensureWasmBindgen, inRoot, main, requireNode, requireRust, run, step,
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

/** Messages of panics name source files: of a crate its own path, not where this machine keeps it. */
const registry = join(process.env.CARGO_HOME ?? join(homedir(), '.cargo'), 'registry', 'src');
const rustflags = `target.${WASM}.rustflags=[${JSON.stringify(`--remap-path-prefix=${registry}=crates`)}]`;

export async function buildWasm() {
  requireRust();
  await ensureTargets(WASM);
  const bindgen = await ensureWasmBindgen();
  await step('building the wasm module', '1 to 2 minutes the first time', () =>
    run('cargo', ['build', '-p', 'rlx-wasm', '--profile', 'wasm', '--target', WASM, '--config', rustflags]));
  mkdirSync(dist, { recursive: true });
  await run(bindgen, [
    inRoot('target', WASM, 'wasm', 'rlx_wasm.wasm'), '--target', 'web', '--out-dir', dist,
    '--out-name', 'rlx_wasm', '--no-typescript', '--remove-producers-section',
  ]);
  const module = join(dist, 'rlx_wasm_bg.wasm');
  await step('optimising the wasm module', 'about 20 s', () =>
    run(process.execPath, [inRoot('node_modules', 'binaryen', 'bin', 'wasm-opt'), module, '-Os', ...WASM_FEATURES, '-o', module]));
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
