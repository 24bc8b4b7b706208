// What the scripts share: running commands, saying what happens, finding the tools.

import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { output, print } from './output.mjs';

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const inRoot = (...parts) => join(root, ...parts);

/** A fault with a sentence for the user; no stack is printed. */
export class Stop extends Error {}

export const say = (line) => print(`rlx: ${line}`);

/** Runs a command with its output shown; throws `Stop` when it fails. */
export function run(command, args, options = {}) {
  const write = output();
  return new Promise((resolve, reject) => {
    const stdio = write ? ['ignore', 'pipe', 'pipe'] : 'inherit';
    const child = spawn(command, args, { cwd: root, stdio, ...options });
    if (write) for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', write);
    child.on('error', (error) => reject(new Stop(`${command} could not be started: ${error.message}`)));
    child.on('close', (code, signal) => {
      if (code === 0) resolve();
      else reject(new Stop(`${[command, ...args].join(' ')} failed (${signal ?? `exit ${code}`})`));
    });
  });
}

/** A command's output, shown as it comes and returned; `code` is its exit status. */
export function tee(command, args, options = {}) {
  const write = output();
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], ...options });
    let text = '';
    for (const [from, to] of [[child.stdout, process.stdout], [child.stderr, process.stderr]]) {
      from.setEncoding('utf8').on('data', (part) => {
        text += part;
        if (write) write(part);
        else to.write(part);
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

/** The version of `name` in a lock file of cargo's. */
function lockedVersion(name, lock) {
  const text = readFileSync(inRoot(lock), 'utf8');
  const version = new RegExp(`name = "${name}"\nversion = "([^"]+)"`).exec(text)?.[1];
  if (!version) throw new Stop(`${lock} names no ${name}`);
  return version;
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

/** Our small command over wasm-bindgen's library (tools/bindgen), compiled when it is not there. */
export async function ensureBindgen() {
  const [ours, theirs] = [lockedVersion('wasm-bindgen', 'Cargo.lock'), lockedVersion('wasm-bindgen-cli-support', 'tools/bindgen/Cargo.lock')];
  if (ours !== theirs) throw new Stop(`Cargo.lock has wasm-bindgen ${ours} and tools/bindgen/Cargo.lock ${theirs}: they must be one version`);
  const target = inRoot('target', 'bindgen');
  const command = join(target, 'debug', process.platform === 'win32' ? 'rlx-bindgen.exe' : 'rlx-bindgen');
  const build = () => run('cargo', ['build', '-q', '--locked', '--manifest-path', inRoot('tools', 'bindgen', 'Cargo.toml'), '--target-dir', target]);
  if (existsSync(command)) await build();
  else await step(`compiling wasm-bindgen ${theirs}`, 'about a minute, once', build);
  return command;
}

/** Runs all `works`, at most `limit` of them at once; the first fault stops what has not begun. */
export async function atOnce(limit, works) {
  const waiting = [...works];
  let failed = false;
  const worker = async () => {
    while (waiting.length > 0 && !failed) {
      await waiting.shift()().catch((error) => {
        failed = true;
        throw error;
      });
    }
  };
  await Promise.all(Array.from({ length: limit }, worker));
}

/** The time since `start`, for a line of a report: seconds, and minutes from two on. */
export function seconds(start) {
  const passed = (performance.now() - start) / 1000;
  return passed < 120 ? `${passed.toFixed(1)} s` : `${(passed / 60).toFixed(1)} min`;
}
