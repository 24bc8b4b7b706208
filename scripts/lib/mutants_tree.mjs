// The copy of the working tree in which every mutant is present, each behind a switch.
//
// A switch is read at run time, so one build serves all mutants. In Rust it asks
// `rlx_core::mutant::on(id)`, a module that exists in the copy only; WGSL texts are edited where the
// Rust code includes them; TypeScript asks the environment.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { ask, inRoot, root, Stop } from './tools.mjs';

export const folder = inRoot('target', 'mutants');
export const tree = join(folder, 'tree');

/** Texts that are constants, which no function can edit where they are included: who reads them. */
const CONSTANT_TEXTS = [
  { texts: /kernels\/sample(\.wgsl|\/)/, reader: 'sample.rs', use: 'WGSL.to_owned()', edited: (pick) => `${pick('WGSL')}.to_owned()` },
  { texts: /kernels\/sample(\.wgsl|\/)/, reader: 'sample_wgsl.rs', use: 'rlx_webgpu::kernels::sample::WGSL', edited: (pick) => pick('rlx_webgpu::kernels::sample::WGSL') },
  { texts: /kernels\/formats\/common\.wgsl$/, reader: '', use: 'formats::COMMON', edited: (pick) => pick('formats::COMMON') },
];

/** The number that stands for a name in Rust: FNV-1a, and above the numbers with a meaning of their own. */
export function idOf(name) {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return (hash | 0x100) >>> 0;
}

/** Where an entry's snippet stands in its file's text: `[start, end]`. Throws a sentence when it is stale. */
export function spanOf(mutant, text) {
  const once = (what, inside, from) => {
    const at = inside.indexOf(what);
    if (at < 0) throw new Stop(`the mutant ${mutant.name} is stale: its ${from} is not in ${mutant.file}`);
    if (inside.indexOf(what, at + 1) >= 0) {
      throw new Stop(`the mutant ${mutant.name} is stale: its ${from} occurs more than once in ${mutant.file}; give a longer one, or \`within\``);
    }
    return at;
  };
  const outer = mutant.within === undefined ? 0 : once(mutant.within, text, 'context');
  const at = outer + once(mutant.from, mutant.within ?? text, 'snippet');
  return [at, at + mutant.from.length];
}

/** The edits of an entry: its own, and those in `also`, all behind its switch. */
export const editsOf = ({ also = [], ...mutant }) => [mutant, ...also.map((edit) => ({ name: mutant.name, file: mutant.file, ...edit }))];

export const language = ({ file }) => (file.endsWith('.wgsl') ? 'wgsl' : file.endsWith('.ts') ? 'js' : 'rust');

/** The text of a Rust or TypeScript file with a switch around each of its mutants' snippets. */
function spliced(file, text, mutants) {
  const places = new Map();
  for (const edit of mutants.flatMap(editsOf)) {
    const [start, end] = spanOf(edit, text);
    const key = `${start} ${end}`;
    if (!places.has(key)) places.set(key, { start, end, edits: [] });
    places.get(key).edits.push(edit);
  }
  const ordered = [...places.values()].sort((a, b) => b.start - a.start);
  let out = text;
  let last = Infinity;
  for (const { start, end, edits: here } of ordered) {
    if (end > last) throw new Stop(`the snippets of ${here[0].name} and of another mutant of ${file} overlap`);
    last = start;
    out = out.slice(0, start) + switched(file, text.slice(start, end), here) + out.slice(end);
  }
  // The other text of a switch need not have the types that the one of the source narrows to.
  return file.endsWith('.ts') ? `// @ts-nocheck\n${out}` : out;
}

/** `from` behind the switches of mutants that replace it. */
function switched(file, from, mutants) {
  const js = file.endsWith('.ts');
  const module = file.startsWith('crates/rlx-core/') ? 'crate' : 'rlx_core';
  const on = ({ name }) => (js
    ? `globalThis.process?.env.RLX_MUTANT === ${JSON.stringify(name)}`
    : `${module}::mutant::on(${idOf(name)})`);
  const kinds = new Set(mutants.map(({ form = 'expression' }) => form));
  if (kinds.size > 1) throw new Stop(`mutants of one snippet of ${file} have different forms`);
  const [form] = kinds;
  if (form === 'statement') {
    const tests = mutants.map((m) => `if ${js ? `(${on(m)})` : on(m)} { ${m.to} }`).join(' else ');
    return `${tests} else { ${from} }`;
  }
  if (js) return `(${mutants.map((m) => `${on(m)} ? (${m.to}) : `).join('')}(${from}))`;
  return `(${mutants.map((m) => `if ${on(m)} { ${m.to} } else `).join('')}{ ${from} })`;
}

/** A text that Rust includes, or several as one: by `wgsl!`, which cuts comments, or as it is. */
const INCLUDED = /\b(?:wgsl|include_str)!\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)/g;

const quoted = (text) => `r####"${text}"####`;

/** Rust source with an edit at each place where it includes one of the WGSL `texts` (path: mutants). */
export function withEditedTexts(file, source, texts) {
  const used = new Set();
  const pick = (expression, mutants) => {
    const edits = mutants.flatMap(editsOf).map(({ name, from, to, within }) => {
      const [a, b] = within === undefined ? [from, to] : [within, within.replace(from, () => to)];
      return `(${idOf(name)}, ${quoted(a)}, ${quoted(b)})`;
    });
    return `rlx_core::mutant::pick(${expression}, &[${edits.join(', ')}])`;
  };
  let out = source.replace(INCLUDED, (whole) => {
    const included = [...whole.matchAll(/"([^"]+\.wgsl)"/g)].map(([, path]) => normalize(join(dirname(file), path)));
    const edited = included.filter((path) => texts.has(path) && !CONSTANT_TEXTS.some((c) => c.texts.test(path)));
    if (edited.length === 0) return whole;
    edited.forEach((path) => used.add(path));
    return pick(whole, edited.flatMap((path) => texts.get(path)));
  });
  for (const { texts: which, reader, use, edited } of CONSTANT_TEXTS) {
    const mutants = [...texts].filter(([path]) => which.test(path));
    if (mutants.length === 0 || !file.endsWith(reader) || !out.includes(use)) continue;
    mutants.forEach(([path]) => used.add(path));
    out = out.replaceAll(use, edited((expression) => pick(expression, mutants.flatMap(([, list]) => list))));
  }
  return { out, used };
}

/** Every file that git knows or would know, with its text in the copy where that is another one. */
export function plannedFiles(mutants) {
  const listed = ask('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard']);
  if (listed === null) throw new Stop('the mutants need a git checkout: which files are ours is asked of git');
  const paths = new Set(listed.split('\0').filter((path) => path && existsSync(inRoot(path))));
  const byFile = Map.groupBy ? Map.groupBy(mutants, (m) => m.file) : group(mutants);
  const changed = new Map();
  const wgsl = new Map();
  for (const [file, list] of byFile) {
    if (!paths.has(file)) throw new Stop(`the mutant ${list[0].name} is stale: there is no ${file}`);
    const text = readFileSync(inRoot(file), 'utf8');
    if (file.endsWith('.wgsl')) {
      for (const edit of list.flatMap(editsOf)) {
        spanOf(edit, text);
        if ((edit.within ?? edit.from).includes('//')) throw new Stop(`the mutant ${edit.name} is stale: its snippet has a comment, which kernels' texts have not`);
      }
      wgsl.set(file, list);
    } else {
      changed.set(file, spliced(file, text, list));
    }
  }
  const placed = new Set();
  for (const path of paths) {
    if (wgsl.size === 0 || !/^crates\/rlx-webgpu\/(src|tests)\/.*\.rs$/.test(path)) continue;
    const source = changed.get(path) ?? readFileSync(inRoot(path), 'utf8');
    const { out, used } = withEditedTexts(path, source, wgsl);
    if (out !== source) changed.set(path, out);
    used.forEach((text) => placed.add(text));
  }
  for (const [file, [mutant]] of wgsl) {
    if (!placed.has(file)) throw new Stop(`no Rust source includes ${file}, of which ${mutant.name} is a mutant`);
  }
  return { paths, changed };
}

function group(mutants) {
  const out = new Map();
  for (const mutant of mutants) out.set(mutant.file, [...(out.get(mutant.file) ?? []), mutant]);
  return out;
}

/**
 * Brings the copy up to date. A file whose bytes are the same is not touched, so that cargo builds
 * again only what a change concerns.
 */
export function writeTree(mutants) {
  const { paths, changed } = plannedFiles(mutants);
  const lib = 'crates/rlx-core/src/lib.rs';
  const text = changed.get(lib) ?? readFileSync(inRoot(lib), 'utf8');
  changed.set(lib, text.replace('pub mod error;', '#[allow(missing_docs)]\npub mod mutant;\npub mod error;'));
  // A switch has parentheses wherever it stands, and what only the source reads is not used by the other text.
  changed.set('Cargo.toml', readFileSync(inRoot('Cargo.toml'), 'utf8')
    .replace('[workspace.lints.rust]', '[workspace.lints.rust]\nunused = "allow"'));
  changed.set('crates/rlx-core/src/mutant.rs', readFileSync(new URL('mutant.rs.txt', import.meta.url), 'utf8'));
  const wanted = new Set([...paths, ...changed.keys()]);
  let written = 0;
  for (const path of wanted) {
    const to = join(tree, path);
    const bytes = changed.has(path) ? Buffer.from(changed.get(path)) : readFileSync(inRoot(path));
    if (existsSync(to) && readFileSync(to).equals(bytes)) continue;
    mkdirSync(dirname(to), { recursive: true });
    writeFileSync(to, bytes);
    written += 1;
  }
  return { files: wanted.size, written, removed: removeOthers(tree, wanted) };
}

/** Removes what an earlier copy had and this one has not; what builds leave in it stays. */
function removeOthers(from, wanted) {
  let removed = 0;
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const path = join(from, entry.name);
    if (entry.isDirectory()) {
      if (['.test', 'target', 'node_modules', '.git'].includes(entry.name)) continue;
      removed += removeOthers(path, wanted);
      if (readdirSync(path).length === 0) rmdirSync(path);
    } else if (!wanted.has(relative(tree, path).replaceAll('\\', '/'))) {
      rmSync(path);
      removed += 1;
    }
  }
  return removed;
}

export { root };
