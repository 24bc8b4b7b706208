/**
 * Which files of a folder or a repository are the model: the GGUF files of one quantisation, else the folder of
 * safetensors.
 */

import { RlxError, usage } from './error.js';
import type { Folder } from './folder.js';
import type { FileItem } from './options.js';
import { shardsOf, stemOf } from './shard_names.js';

/** What is in a folder or a repository: names with `/` between folder and file. */
export interface Listing {
  /** Its name in errors. */
  name: string;
  names: string[];
  /** The file of one of the names. */
  file(name: string): FileItem;
}

/** How deep folders are looked into, and at how many files at most. */
const DEPTH = 3;
const MOST_FILES = 10_000;

/** All files in a folder: `entries` says what a folder holds itself. Names that begin with a dot are passed over. */
export async function files<At>(
  root: At, name: string, entries: (folder: At) => Promise<{ name: string; isFolder: boolean; at: At }[]>,
): Promise<{ names: string[]; file: (name: string) => At }> {
  const found = new Map<string, At>();
  const walk = async (folder: At, path: string, depth: number): Promise<void> => {
    for (const entry of await entries(folder)) {
      if (entry.name.startsWith('.')) continue;
      if (!entry.isFolder) found.set(path + entry.name, entry.at);
      else if (depth < DEPTH) await walk(entry.at, `${path}${entry.name}/`, depth + 1);
      if (found.size > MOST_FILES) throw usage(`the folder has more than ${MOST_FILES} files`, name, 'give the model\'s own folder');
    }
  };
  await walk(root, '', 1);
  return { names: [...found.keys()].sort(), file: (wanted) => found.get(wanted)! };
}

/** The quantisations that are taken if none is named, the first that there is. */
const PREFERRED = [
  'Q4_K_M', 'Q4_K_S', 'Q4_K_L', 'Q4_K_XL', 'UD-Q4_K_XL', 'Q4_K', 'Q4_0', 'Q4_1', 'IQ4_NL', 'IQ4_XS', 'MXFP4', 'Q5_K_M', 'Q5_K_S',
  'Q5_0', 'Q5_1', 'Q6_K', 'Q8_0', 'Q3_K_L', 'Q3_K_M', 'Q3_K_S', 'IQ3_M', 'IQ3_S', 'Q2_K', 'BF16', 'F16', 'F32',
];
const QUANT = /(?:^|[-._])((?:UD-)?(?:I?Q\d\w*|TQ\d_\d|MXFP4\w*|BF16|FP?16|FP?32))$/i;

/** What a GGUF file's name says about its quantisation. */
function quantOf(name: string): string | undefined {
  return QUANT.exec(stemOf(name.slice(name.lastIndexOf('/') + 1)))?.[1]?.toUpperCase().replace(/^FP/, 'F');
}

/** The files of the model, of the quantisation or the file that is named. */
export function modelOf(listing: Listing, wanted?: string): FileItem[] | Folder {
  const { name: at, names, file } = listing;
  // A model of several shards is one name here: its first shard's.
  const models = [...new Set(names.filter(isModel).map((name) => shardsOf(name)[0]!))];
  if (models.length === 0) {
    if (wanted !== undefined) throw usage(`there is no ${wanted}: there are no GGUF files`, at);
    if (!names.some((name) => name === 'config.json' || name.endsWith('.safetensors'))) {
      throw new RlxError('io', `there is no model: ${some(names) || 'nothing'}`, { at, hint: 'a model is GGUF files, or safetensors with config.json' });
    }
    return { name: at, names, file: (name) => (names.includes(name) ? file(name) : undefined) };
  }
  const shards = shardsOf(choose(models, wanted, at));
  const missing = shards.find((name) => !names.includes(name));
  if (missing !== undefined) throw new RlxError('io', `there is no ${missing}`, { at, hint: `the model has ${shards.length} shards` });
  return shards.map(file);
}

/** GGUF files of language and other models; not those that only go with one. */
function isModel(name: string): boolean {
  return /\.gguf$/i.test(name) && !/(^|\/)mmproj|imatrix/i.test(name);
}

function choose(models: string[], wanted: string | undefined, at: string): string {
  if (wanted !== undefined && /\.gguf$/i.test(wanted)) {
    const first = shardsOf(wanted)[0]!;
    const named = models.filter((name) => name === first || name.endsWith(`/${first}`));
    if (named.length === 1) return named[0]!;
    throw usage(`there is no ${wanted}`, at, `there are ${some(models)}`);
  }
  const by = (quant: string | undefined) => models.filter((name) => quantOf(name) === quant);
  const quants = [...new Set(models.map(quantOf))];
  const quant = wanted?.toUpperCase() ?? PREFERRED.find((name) => quants.includes(name)) ?? quants[0];
  const found = by(quant);
  if (found.length === 0) {
    const there = quants.filter((name) => name !== undefined);
    throw usage(`there is no ${wanted}`, at, `there are ${some(there.length > 0 ? there : models)}`);
  }
  if (found.length > 1) throw usage(`several files are ${quant ?? 'the model'}: ${some(found)}`, at, 'name the file');
  return found[0]!;
}

/** The first few of names. */
function some(names: (string | undefined)[]): string {
  return names.slice(0, 20).join(', ') + (names.length > 20 ? ` and ${names.length - 20} more` : '');
}
