// Projects that use the packed package as anybody would who installs it: each in a new folder outside of the repository.

import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { differences, questionsOf } from '../support/parity.mjs';

export const root = fileURLToPath(new URL('../../', import.meta.url));
export const source = join(root, 'crates/rlx-wasm/js');
/** Tools that the repository has itself; others are installed into a project. */
export const tool = (...path) => join(root, 'node_modules', ...path);

/** Everything of this run is in here. */
export const space = mkdtempSync(join(tmpdir(), 'rlx-package-'));
process.on('exit', () => rmSync(space, { recursive: true, force: true }));

/** `npm pack` of the package: its file, and what npm says about it. */
export const packed = (() => {
  const [said] = JSON.parse(execFileSync('npm', ['pack', '--json', '--pack-destination', space], { cwd: source, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }));
  return { ...said, path: join(space, said.filename) };
})();

/** The model and the questions that every project asks: all of the recorded ones. */
const testCase = { format: 'q4_k_m' };
const expected = JSON.parse(readFileSync(join(root, 'tests/fixtures/rustdoc-2m/expected.json'), 'utf8'));
export const model = join(root, 'tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf');
export const questions = questionsOf(testCase, expected, 'package');
/** The token that ends the model's answers. */
export const end = expected.eos_token_id;

/**
 * Files that every project may use: `ask` loads the model on the CPU, asks, and answers with what differs from what was
 * recorded. `differences` is the one that every other executor is asked by.
 */
export const ask = (entry = 'rlx-wasm') => `
import { Engine } from ${JSON.stringify(entry)};

${differences}

const questions = ${JSON.stringify(questions)};

export async function ask(model, options = {}) {
  const engine = await Engine.load({ model, device: 'cpu', ...options });
  const found = await differences(engine, questions, ${expected.max_new_tokens});
  const { device } = engine.info();
  engine.dispose();
  return JSON.stringify({ device, asked: questions.length, found });
}
`;

/** What a page of a project does: its answer becomes its title. */
export const page = (body) => `import { ask } from './ask.js';
ask(${body}).then((answer) => { document.title = answer; }, (error) => { document.title = String(error.stack ?? error); });
`;

export const html = (script) => `<!doctype html><meta charset="utf-8"><title></title><script type="module" src="${script}"></script>`;

export const rightAnswer = JSON.stringify({ device: 'cpu', asked: questions.length, found: [] });

/** A new project with these files, in which the package is installed, and `more` from the registry. */
export function project(name, files, more = []) {
  const folder = join(space, name);
  mkdirSync(folder);
  write(folder, { 'package.json': JSON.stringify({ name: 'project', private: true, type: 'module' }), ...files });
  npm(folder, 'install', '--no-audit', '--no-fund', ...(more.length === 0 ? ['--offline'] : ['--prefer-offline']), packed.path, ...more);
  return folder;
}

export function write(folder, files) {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

/** The model in a folder that a project serves. */
export function serveModel(folder) {
  mkdirSync(folder, { recursive: true });
  cpSync(model, join(folder, 'm.gguf'));
}

export const npm = (folder, ...args) => run('npm', args, { cwd: folder });

/** Runs a program; what it wrote. Fails with all of that if the program does. */
export function run(command, args, options) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', timeout: 240_000, ...options });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error ?? status}\n${stdout}\n${stderr}`);
  return stdout;
}

export const lastLine = (text) => text.trim().split('\n').at(-1);
