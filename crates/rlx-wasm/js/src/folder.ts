/**
 * A model's files. GGUF files, or one of safetensors, are read as they are given. A folder, as transformers and
 * sentence-transformers write them, has small files besides, and its weights are `model.safetensors` or the files
 * that `model.safetensors.index.json` names; a pipeline's folder has folders of models. A folder is given as an
 * address with `/` at its end, as a list of its files, or as what `modelOf` made of a directory.
 */

import { addressOf } from './address.js';
import type { Bringing } from './bring.js';
import { RlxError, usage } from './error.js';
import { filesOf } from './items.js';
import { isAddress } from './options.js';
import type { FileItem, ModelItem } from './options.js';
import type { ShardReader } from './shard.js';
import { isMissing } from './source.js';
import type { WasmLoading } from './wasm.js';

/** Most bytes of a configuration or a tokenizer. */
const TEXT_BYTES = 64 << 20;
/** What transformers calls the files of a model's weights, before their ending. */
const STEM = 'model';
/** The folder inside a model's that has the templates which are not the usual one. */
const TEMPLATES = 'additional_chat_templates';

/** A model's folder. */
export interface Folder {
  /** Its name in errors. */
  name: string;
  /** The file of that name. A list may lack it; an address is not asked yet. */
  file(name: string): FileItem | undefined;
  /** The names of all files, if it is a list. */
  names?: string[];
}

/** A text that the module is given before the weights. */
export interface TextFile {
  /** Its name in a model's folder, or `graph`. */
  name: string;
  /** Undefined if a list of files lacks it. */
  from: FileItem | undefined;
  /** Given if a folder may lack the file: the file to read instead, or `none`. */
  else?: TextFile | 'none';
}

/** The files of a model. */
export interface ModelFiles {
  /** Its weights, or the folder that has them, as the caller names them. */
  items: ModelItem[];
  /** The texts that it has besides, if its files are a folder, or if they are not. */
  texts(folder: Folder | undefined): TextFile[];
}

/** The folder that these items are: one address with `/` at its end, or files of which one is JSON. */
export function folderOf(items: readonly FileItem[]): Folder | undefined {
  const [first] = items;
  if (items.length === 1 && isAddress(first)) {
    const url = addressOf(first);
    if (url.pathname.endsWith('/') && url.protocol !== 'data:') return { name: url.href, file: (name) => new URL(name, url) };
  }
  const names = items.map(nameOf);
  if (!names.some((name) => name.endsWith('.json'))) return undefined;
  // A list is searched by names.
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw usage(`two of the files are named ${twice}`, 'model');
  if (names.includes('')) throw usage('a file of the folder has no name', 'model', 'give a File, or an address');
  return { name: 'the files', file: (name) => items[names.indexOf(name)], names };
}

/** The name of a file in its folder: a path if a page was given the folder and the file is in one further inside. */
function nameOf(item: FileItem): string {
  if (isAddress(item)) {
    const [inside, last] = addressOf(item).pathname.split('/').slice(-2) as [string, string];
    try {
      return (inside === TEMPLATES ? `${inside}/` : '') + decodeURIComponent(last);
    } catch {
      return last; // a lone % stands for itself
    }
  }
  const { webkitRelativePath: path, name = '' } = item as Partial<File>; // a handle has a name too
  return path ? path.slice(path.indexOf('/') + 1) : name;
}

/** A text of a folder. */
export const textOf = (folder: Folder, name: string, without?: TextFile['else']): TextFile =>
  ({ name, from: folder.file(name), ...(without && { else: without }) });

/** A folder inside of a folder. */
export function folderIn(folder: Folder, inside: string): Folder {
  const path = `${inside}/`;
  const names = folder.names?.filter((name) => name.startsWith(path)).map((name) => name.slice(path.length));
  const name = `${folder.name.replace(/\/$/, '')}/${path}`;
  return { name, file: (wanted) => folder.file(path + wanted), ...(names && { names }) };
}

/** The files of a language model. */
export const languageFiles = (items: ModelItem[]): ModelFiles => ({ items, texts: languageTexts });

function languageTexts(folder: Folder | undefined): TextFile[] {
  if (!folder) return [];
  const texts = [textOf(folder, 'config.json'), textOf(folder, 'tokenizer.json', textOf(folder, 'tokenizer.model', 'none'))];
  for (const name of ['tokenizer_config.json', 'generation_config.json']) texts.push(textOf(folder, name, 'none'));
  texts.push(textOf(folder, `${TEMPLATES}/tool_use.jinja`, 'none'), textOf(folder, 'chat_template.jinja', textOf(folder, 'chat_template.json', 'none')));
  return texts;
}

/** A model whose weights were not opened yet. */
export interface FoundModel {
  /** The files of its weights, or the folder that has them. */
  files: FileItem[] | Folder;
  /** The texts that it has besides. */
  texts: ReadText[];
}

interface ReadText {
  name: string;
  at: string;
  bytes: Uint8Array;
}

/** Finds a model and reads its texts. That needs no module: a load says what a folder lacks before its module has come. */
export async function findModel({ items, texts }: ModelFiles, open: Bringing['open']): Promise<FoundModel> {
  const files = await filesOf(items, open);
  return { files, texts: await readTexts(texts(Array.isArray(files) ? undefined : files), open) };
}

/** Gives the module the texts of a model, and answers with the readers of its weights. */
export async function openModel(wasm: WasmLoading, { files, texts }: FoundModel, open: Bringing['open']): Promise<ShardReader[]> {
  giveTexts(wasm, texts);
  return Array.isArray(files) ? Promise.all(files.map(open)) : openWeights(wasm, files, open);
}

/** Gives the module texts. */
export function giveTexts(wasm: WasmLoading, texts: readonly ReadText[]): void {
  for (const { name, at, bytes } of texts) wasm.text(name, at, bytes);
}

/** Reads texts, or their substitutes. */
async function readTexts(texts: readonly TextFile[], open: Bringing['open']): Promise<ReadText[]> {
  const read = await Promise.all(texts.map((text) => readFirst(text, open)));
  return read.filter((text) => text !== undefined);
}

/** A text, or the first of its substitutes that is there; undefined if none is and the folder may lack it. */
async function readFirst({ name, from, else: without }: TextFile, open: Bringing['open']): Promise<ReadText | undefined> {
  const text = await ifThere(from, open, readText, without !== undefined);
  if (text) return { name, ...text };
  if (without === undefined) throw lacks('the files', name, 'a model is read by its config.json: give that too');
  return without === 'none' ? undefined : readFirst(without, open);
}

/** Readers of a folder's weights, by what their files may be called: one file, or those that an index names. */
export async function openWeights(wasm: WasmLoading, folder: Folder, open: Bringing['open'], stems: readonly string[] = [STEM]): Promise<ShardReader[]> {
  let names: readonly string[] | undefined;
  let [named = STEM] = stems;
  for (const stem of stems) {
    const whole = await ifThere(folder.file(`${stem}.safetensors`), open, async (reader) => {
      await reader.open();
      return reader;
    });
    if (whole) return [whole];
    const index = await ifThere(folder.file(indexOf(stem)), open, readText);
    if (index) {
      [names, named] = [wasm.index(index.at, index.bytes), stem];
      break;
    }
  }
  // Without an index all files of weights in a list are the model's.
  names ??= folder.names?.filter((name) => /^[^/]*\.(safetensors|gguf)$/.test(name)) ?? [];
  if (names.length === 0) {
    const other = folder.names?.find((name) => /\.(bin|pth?|ckpt|h5|msgpack|onnx)$/.test(name));
    throw lacks(folder.name, `${named}.safetensors and no ${indexOf(named)}`, `${other ?? 'pytorch_model.bin'} is not read: convert the model to safetensors or GGUF`);
  }
  return Promise.all(names.map((name) => {
    const file = folder.file(name);
    if (file === undefined) throw lacks(folder.name, name, `give it too: ${indexOf(named)} names it`);
    return open(file);
  }));
}

const indexOf = (stem: string) => `${stem}.safetensors.index.json`;

const lacks = (at: string, name: string, hint: string) => new RlxError('io', `there is no ${name}`, { at, hint });

/** What `read` makes of a file; undefined if there is no such file, and that is `allowed`. */
async function ifThere<T>(from: FileItem | undefined, open: Bringing['open'], read: (reader: ShardReader) => Promise<T>, allowed = true): Promise<T | undefined> {
  if (from === undefined) return undefined;
  try {
    return await read(await open(from));
  } catch (error) {
    if (allowed && isMissing(error)) return undefined;
    throw error;
  }
}

/** A whole small file, and its name in errors. */
export async function readText(reader: ShardReader): Promise<{ at: string; bytes: Uint8Array }> {
  const at = reader.source.name;
  const parts: Uint8Array<ArrayBuffer>[] = [];
  try {
    for (;;) {
      const chunk = await reader.read();
      if (chunk === null) break;
      parts.push(chunk.slice() as Uint8Array<ArrayBuffer>);
      if (reader.position > TEXT_BYTES) {
        throw new RlxError('bad_file', `the file has more than ${TEXT_BYTES} bytes, a text of a model has not`, { at });
      }
    }
  } finally {
    await reader.close();
  }
  return { at, bytes: new Uint8Array(await new Blob(parts).arrayBuffer()) };
}
