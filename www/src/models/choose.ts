/** Models from what people give: an address, files, a folder. */

import { nameOf } from '../state/built_in.js';
import type { Source } from '../state/engine.js';

/** Files of a model, by their names. */
export const isModelFile = (name: string): boolean => /\.(gguf|safetensors)$/i.test(name);

/** The model of an address or of a name of the Hub; a sentence where it is neither. */
export function fromText(text: string): Source | string {
  const given = text.trim();
  if (given === '') return 'Write an address, or hf: and the name of a repository.';
  if (/^hf:[\w.-]+\/[\w.-]+/.test(given)) return { name: given.slice(3), model: given };
  // The address of a file on the Hub's own pages is that of a page about it.
  const address = given.replace(/^(https:\/\/huggingface\.co\/[^/]+\/[^/]+)\/blob\//, '$1/resolve/');
  const repository = /^https:\/\/huggingface\.co\/([\w.-]+\/[\w.-]+)\/?$/.exec(address)?.[1];
  if (repository) return { name: repository, model: `hf:${repository}` };
  try {
    const { protocol, href } = new URL(address, location.href);
    if (protocol === 'https:' || protocol === 'http:') return { name: nameOf(href), model: href };
  } catch {
    // Told below.
  }
  return 'This is neither an address that begins with https:// nor hf: and the name of a repository.';
}

/** The model of some files, or of those of a folder; a sentence where they are none. */
export function fromFiles(files: readonly File[]): Source | string {
  const weights = files.find(({ name }) => isModelFile(name));
  if (!weights) return 'None of these files has weights: a model is a .gguf file, or a folder with .safetensors files.';
  const folder = weights.webkitRelativePath.split('/').slice(-2, -1)[0];
  return { name: folder && !/\.gguf$/i.test(weights.name) ? folder : nameOf(weights.name), model: [...files] };
}

/** All files of what was dropped, folders included, up to a bound. */
export async function filesOf(dropped: readonly (FileSystemEntry | File)[], most = 500): Promise<File[]> {
  const found: File[] = [];
  const walk = async (entry: FileSystemEntry | File): Promise<void> => {
    if (found.length >= most) return;
    if (entry instanceof File) return void found.push(entry);
    if (entry.isFile)
      found.push(await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)));
    if (!entry.isDirectory) return;
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    // A reader gives some at a time, and none at the end.
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0 || found.length >= most) return;
      for (const each of some) await walk(each);
    }
  };
  for (const each of dropped) await walk(each);
  return found;
}
