// `npm test`: every check, in an order that fails early. Stops at the first stage that fails.
// `npm test -- rust browser` runs only the named stages (and what they need to be built).

import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildAll, buildDemo, buildPackage, tsc } from './build.mjs';
import {
  ask, ensureDebian, ensureNpm, ensureTargets, inRoot, main, NEON, requireNode, requireRust, run, say, seconds, Stop, tee,
} from './lib/tools.mjs';
import { sizeReport } from './size.mjs';

const DEBIAN_PACKAGES = { chromium: '/usr/bin/chromium', 'mesa-vulkan-drivers': '/usr/share/vulkan/icd.d', libvulkan1: null };
const passed = { tests: 0, failed: 0 };

/** Adds up the numbers that cargo's and node's test runners print. */
function count(text) {
  for (const [, ok, bad] of text.matchAll(/^test result: \w+\. (\d+) passed; (\d+) failed/gm)) {
    passed.tests += Number(ok);
    passed.failed += Number(bad);
  }
  // In node's order: pass, fail, cancelled (a failure too).
  for (const [, word, n] of text.matchAll(/^(?:#|ℹ) (pass|fail|cancelled) (\d+)$/gm)) {
    passed[word === 'pass' ? 'tests' : 'failed'] += Number(n);
  }
}

async function tests(command, args, options) {
  const { code, text } = await tee(command, args, options);
  count(text);
  if (code !== 0) throw new Stop(`${command} ${args.slice(0, 3).join(' ')} failed`);
}

/** A check without tests of its own counts as one. */
async function check(...command) {
  try {
    await run(command[0], command.slice(1));
    passed.tests += 1;
  } catch (error) {
    passed.failed += 1;
    throw error;
  }
}

function testFiles(folder, suffix) {
  const files = readdirSync(inRoot(folder)).filter((name) => name.endsWith(suffix)).sort();
  if (files.length === 0) throw new Stop(`${folder} has no tests`);
  return files.map((name) => join(folder, name));
}

const nodeTests = (...args) => tests(process.execPath, ['--test', '--test-reporter=spec', ...args]);

/** Debian's Chromium and a software Vulkan driver; installed if we may, else named. */
async function system() {
  const missing = Object.entries(DEBIAN_PACKAGES).filter(([name, path]) => {
    if (ask('dpkg-query', ['-W', '-f=${Status}', name])?.includes('install ok')) return false;
    return !(path && existsSync(path));
  }).map(([name]) => name);
  if (missing.length === 0) return;
  await ensureDebian('the browser tests', missing, ', or install a Chromium at /usr/bin/chromium and a Vulkan driver');
}

const built = { package: false };
async function builtPackage() {
  if (built.package) return;
  await buildAll();
  built.package = true;
}

const NO_STD = ['-p', 'rlx-core', '--no-default-features', '--features', 'text,parse,reference,vision,audio,linalg,quant,encode', '--target', 'wasm32v1-none'];

/** Name, what it needs, what it does. */
const STAGES = {
  format: { work: () => check('cargo', 'fmt', '--all', '--check') },
  clippy: {
    work: async () => {
      await ensureTargets('wasm32-unknown-unknown', NEON);
      await check('cargo', 'clippy', '--workspace', '--all-targets', '--', '-D', 'warnings');
      await check('cargo', 'clippy', '-p', 'rlx-wasm', '--target', 'wasm32-unknown-unknown', '--', '-D', 'warnings');
      // As it is tested under qemu by scripts/neon.mjs.
      await check('cargo', 'clippy', '-p', 'rlx-cpu', '--target', NEON, '--', '-D', 'warnings');
    },
  },
  no_std: {
    work: async () => {
      await ensureTargets('wasm32v1-none');
      await check('cargo', 'check', ...NO_STD);
    },
  },
  types: {
    work: async () => {
      await check(process.execPath, tsc, '-p', 'crates/rlx-wasm/js/tsconfig.test.json');
      await nodeTests(...testFiles('crates/rlx-wasm/js/.test/test', '.test.js'));
      await buildPackage(); // the demo is checked against the package's declarations
      await check(process.execPath, tsc, '-p', 'www');
    },
  },
  native: { work: () => check('cargo', 'build', '--release', '-p', 'rlx-native') },
  rust: { needs: [system], work: () => tests('cargo', ['test', '--workspace', '--no-fail-fast']) },
  tint: {
    // Every kernel the emitter can print, under the compiler that Chromium and Dawn have.
    work: async () => {
      const folder = mkdtempSync(join(tmpdir(), 'rlx-wgsl-'));
      await run('cargo', ['run', '-q', '-p', 'rlx-webgpu', '--example', 'emit', '--', folder]);
      await check(process.execPath, 'crates/rlx-webgpu/tests/tint.mjs', folder);
      rmSync(folder, { recursive: true, force: true });
    },
  },
  size: {
    needs: [builtPackage],
    work: async () => {
      await buildDemo();
      await sizeReport();
      passed.tests += 1;
    },
  },
  browser: {
    needs: [system, builtPackage, buildDemo],
    work: () => nodeTests('--test-concurrency=1', ...testFiles('tests/browser', '.test.mjs')),
  },
  runtimes: {
    needs: [system, builtPackage],
    work: () => nodeTests('--test-concurrency=1', ...testFiles('tests/runtimes', '.test.mjs')),
  },
};

await main(async () => {
  const wanted = process.argv.slice(2);
  const unknown = wanted.filter((name) => !(name in STAGES));
  if (unknown.length > 0) throw new Stop(`no stage ${unknown.join(', ')}; there are ${Object.keys(STAGES).join(', ')}`);
  requireNode();
  requireRust();
  // Vulkan drivers and Chromium complain without one.
  process.env.XDG_RUNTIME_DIR ||= mkdtempSync(join(tmpdir(), 'rlx-'));
  await ensureNpm();

  const start = performance.now();
  say(`testing on ${cpus().length} cores`);
  let failure;
  for (const [name, { needs = [], work }] of Object.entries(STAGES)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    const stageStart = performance.now();
    say(`── ${name}`);
    try {
      for (const need of needs) await need();
      await work();
    } catch (error) {
      if (!(error instanceof Stop)) throw error;
      failure = `stage ${name} failed after ${seconds(stageStart)}: ${error.message}`;
      passed.failed = Math.max(passed.failed, 1);
      break;
    }
    say(`── ${name}: passed in ${seconds(stageStart)}`);
  }
  say(`all in ${seconds(start)}`);
  if (failure) console.error(`rlx: ${failure}`);
  console.log(`${passed.tests} passed, ${passed.failed} failed`);
  if (failure) process.exitCode = 1;
});
