// What scripts/proof.mjs compares executors with: recorded truth, as `rlx verify` takes it.

import { existsSync, openSync, readdirSync, readFileSync, readSync, closeSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { inRoot, root } from './tools.mjs';

/** Questions of a record of answers that are asked. */
const QUESTIONS = 2;
/** Most bytes of a safetensors header that is read. */
const MOST_HEADER = 64 << 20;

/** Families with their names of GGUF architectures and of transformers' models, as README's table, which a test holds, has them. */
export function families() {
  const page = readFileSync(inRoot('README.md'), 'utf8');
  const rows = page.slice(page.indexOf('<!-- families:'), page.indexOf('<!-- end -->')).split('\n').filter((line) => line.startsWith('| ')).slice(2);
  const names = (text) => Array.from(text.matchAll(/`([^`]+)`/g), ([, name]) => name);
  return rows.map((row) => row.split('|').slice(1).map((cell) => cell.trim())).map(([name, gguf, folder]) => ({ name, gguf: names(gguf), folder: names(folder) }));
}

/** The folder of recorded truth that is not tracked: beside the checkout, or the nearest above it. */
function shared() {
  for (let folder = dirname(root); ; folder = dirname(folder)) {
    const here = join(folder, 'shared');
    if (existsSync(join(here, 'reference'))) return here;
    if (folder === dirname(folder)) return null;
  }
}

/** Whether a folder has a record of a whole model: some are parts of others, or of pipelines. */
function isRecord(folder) {
  const file = join(folder, 'io.safetensors');
  if (!existsSync(file) || !existsSync(join(folder, 'config.json'))) return false;
  const fd = openSync(file, 'r');
  try {
    const length = Buffer.alloc(8);
    readSync(fd, length, 0, 8, 0);
    const bytes = Number(length.readBigUInt64LE());
    if (bytes > Math.min(statSync(file).size, MOST_HEADER)) return false;
    const header = Buffer.alloc(bytes);
    readSync(fd, header, 0, bytes, 8);
    return 'rlx' in (JSON.parse(header.toString()).__metadata__ ?? {});
  } finally {
    closeSync(fd);
  }
}

const entries = (folder) => (existsSync(folder) ? readdirSync(folder).sort() : []);

/** Folders with what PyTorch recorded. */
function folders(parent) {
  return entries(parent).map((name) => join(parent, name)).filter((path) => statSync(path).isDirectory() && isRecord(path))
    .map((path) => ({ name: basename(path), kind: 'folder', path, args: [] }));
}

/** GGUF files with logits and tokens that llama.cpp recorded. */
function logits(parent) {
  return entries(parent).filter((name) => name.endsWith('.gguf') && existsSync(join(parent, name.replace(/gguf$/, 'json'))))
    .filter((name) => 'logits' in JSON.parse(readFileSync(join(parent, name.replace(/gguf$/, 'json')), 'utf8')))
    .map((name) => ({ name: basename(name, '.gguf'), kind: 'gguf', path: join(parent, name), args: [] }));
}

/** GGUF files with answers that llama.cpp recorded. */
function answers(parent, record = join(parent, 'expected.json')) {
  const first = /^(.*?)(?:-00001-of-\d+)?\.gguf$/;
  return entries(parent).filter((name) => first.test(name) && !/-000(?!01-)\d\d-of-/.test(name))
    .map((name) => ({ name: first.exec(name)[1], kind: 'answers', path: join(parent, name), args: ['--record', record, '--questions', `${QUESTIONS}`] }));
}

/**
 * All records: tracked ones, and of `shared` beside the checkout those of other names. `args` are what `rlx verify` is
 * given besides the path; `architecture` answers with what a GGUF file names as its own.
 */
export function records(architecture) {
  const fixtures = inRoot('tests', 'fixtures');
  const all = [
    ...folders(fixtures), ...logits(join(fixtures, 'gguf')), ...answers(join(fixtures, 'rustdoc-2m')),
    ...answers(inRoot('models', 'rustdoc-29m'), join(fixtures, 'rustdoc-29m', 'expected.json')),
  ];
  const beside = shared();
  if (beside) all.push(...folders(join(beside, 'reference')), ...logits(join(beside, 'reference', 'gguf')));
  const seen = new Set();
  const known = families();
  const family = ({ kind, path }) => {
    if (kind !== 'folder') {
      const own = architecture(path);
      return known.find(({ gguf }) => gguf.includes(own))?.name;
    }
    const config = JSON.parse(readFileSync(join(path, 'config.json'), 'utf8'));
    return known.find(({ folder }) => folder.includes(config.model_type ?? config._class_name))?.name;
  };
  return all.filter(({ kind, name }) => !seen.has(`${kind} ${name}`) && seen.add(`${kind} ${name}`))
    .map((record) => ({ ...record, family: family(record) ?? 'unknown' }));
}
