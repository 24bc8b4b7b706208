// What the scripts share: running commands, saying what happens, finding the tools.

import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const inRoot = (...parts) => join(root, ...parts);

/** A fault with a sentence for the user; no stack is printed. */
export class Stop extends Error {}

export const say = (line) => console.log(`rlx: ${line}`);

/** Runs a command with its output shown; throws `Stop` when it fails. */
export function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: 'inherit', ...options });
    child.on('error', (error) => reject(new Stop(`${command} could not be started: ${error.message}`)));
    child.on('exit', (code, signal) => {
      if (code === 0) resolve();
      else reject(new Stop(`${[command, ...args].join(' ')} failed (${signal ?? `exit ${code}`})`));
    });
  });
}

/** A command's output, shown as it comes and returned; `code` is its exit status. */
export function tee(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], ...options });
    let text = '';
    for (const [from, to] of [[child.stdout, process.stdout], [child.stderr, process.stderr]]) {
      from.setEncoding('utf8').on('data', (part) => {
        text += part;
        to.write(part);
      });
    }
    child.on('error', (error) => reject(new Stop(`${command} could not be started: ${error.message}`)));
    child.on('close', (code) => resolve({ code, text }));
  });
}

/** A command's trimmed standard output, or null when it is absent or fails. */
export function ask(command, args = [], options = {}) {
  const { status, stdout } = spawnSync(command, args, { cwd: root, encoding: 'utf8', ...options });
  return status === 0 ? stdout.trim() : null;
}

/** Runs `work` under a line that says what it is for and how long it usually takes. */
export async function step(what, usually, work) {
  say(`${what}${usually ? ` (${usually})` : ''} …`);
  const start = performance.now();
  await work();
  say(`${what}: done in ${((performance.now() - start) / 1000).toFixed(1)} s`);
}

/** Prints a `Stop` as one sentence and leaves with 1; any other fault keeps its stack. */
export async function main(work) {
  try {
    await work();
  } catch (error) {
    console.error(error instanceof Stop ? `rlx: ${error.message}` : error);
    process.exitCode = 1;
  }
}

/** The version of `name` in Cargo.lock. */
export function lockedVersion(name) {
  const lock = readFileSync(inRoot('Cargo.lock'), 'utf8');
  return new RegExp(`name = "${name}"\nversion = "([^"]+)"`).exec(lock)?.[1] ?? null;
}

export function requireRust() {
  if (ask('cargo', ['--version']) === null) {
    throw new Stop('Rust is missing: install rustup from https://rustup.rs with the stable toolchain (1.95 or newer), open a new terminal, and run this again');
  }
}

export function requireNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) {
    throw new Stop(`Node ${process.versions.node} is too old: install Node 20.19 or newer from https://nodejs.org`);
  }
}

/** The target that NEON is checked and tested for: musl and rustc's own linker need no C compiler. */
export const NEON = 'aarch64-unknown-linux-musl';

/** Installs the rustup targets that are not there. */
export async function ensureTargets(...targets) {
  const installed = ask('rustup', ['target', 'list', '--installed'])?.split('\n');
  if (!installed) {
    const libraries = join(ask('rustc', ['--print', 'sysroot']) ?? '', 'lib', 'rustlib');
    const missing = targets.filter((target) => !existsSync(join(libraries, target)));
    if (missing.length === 0) return;
    throw new Stop(`the Rust target ${missing.join(', ')} is missing and there is no rustup to add it: install rustup from https://rustup.rs`);
  }
  const missing = targets.filter((target) => !installed.includes(target));
  if (missing.length > 0) {
    await step(`adding the Rust target ${missing.join(', ')}`, 'about 20 s', () => run('rustup', ['target', 'add', ...missing]));
  }
}

/** Installs Debian packages if we may, else says what to run; `otherwise` names another way. */
export async function ensureDebian(who, packages, otherwise = '') {
  const install = `apt-get install -y --no-install-recommends ${packages.join(' ')}`;
  if (process.getuid?.() !== 0 || ask('apt-get', ['--version']) === null) {
    throw new Stop(`${who} need ${packages.join(', ')}: run \`sudo ${install}\` (Debian)${otherwise}`);
  }
  say(`installing ${packages.join(', ')} (about a minute) …`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await run('apt-get', ['update', '-q'], { env });
  await run('apt-get', install.split(' ').slice(1), { env });
}

/** `npm ci` when node_modules is not what package-lock.json says. */
export async function ensureNpm() {
  const stamp = inRoot('node_modules', '.rlx-lock');
  const hash = createHash('sha256').update(readFileSync(inRoot('package-lock.json'))).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return;
  await step('installing npm packages', 'about 15 s', () => run('npm', ['ci', '--no-audit', '--no-fund']));
  writeFileSync(stamp, hash);
}

/**
 * The `wasm-bindgen` command of exactly the library's version, which its output format needs:
 * from PATH if it fits, else from .tools, else built into .tools.
 */
export async function ensureWasmBindgen() {
  const version = lockedVersion('wasm-bindgen');
  if (!version) throw new Stop('Cargo.lock names no wasm-bindgen: crates/rlx-wasm does not depend on it');
  const local = inRoot('.tools', 'bin', process.platform === 'win32' ? 'wasm-bindgen.exe' : 'wasm-bindgen');
  for (const command of ['wasm-bindgen', local]) {
    if (ask(command, ['--version']) === `wasm-bindgen ${version}`) return command;
  }
  // Without --locked: the lock file inside this release names a crate version that was withdrawn.
  await step(`installing wasm-bindgen-cli ${version} into .tools`, 'about 2 minutes, once', () =>
    run('cargo', ['install', 'wasm-bindgen-cli', '--version', version, '--root', inRoot('.tools')]));
  return local;
}

/** Seconds since `start`, for a line of a report. */
export const seconds = (start) => `${((performance.now() - start) / 1000).toFixed(1)} s`;
