/** Models of the Hugging Face Hub by their names: `hf:owner/repository`, then `:quantisation` or `:file`, then `@revision`. */

import type { Bringing } from './bring.js';
import { RlxError, usage } from './error.js';
import { readText } from './folder.js';
import type { Folder } from './folder.js';
import { modelOf } from './listing.js';
import type { FileItem } from './options.js';
import { HUB } from './request.js';

const NAME = /^hf:([\w.-]+\/[\w.-]+)(?::([^:@\s]+))?(?:@(\S+))?$/;

export async function hubModel(name: string, open: Bringing['open']): Promise<FileItem[] | Folder> {
  const [, repo, quant, revision = 'main'] = NAME.exec(name) ?? [];
  if (repo === undefined || repo.split('/').some(isDots)) {
    throw usage(`${name} names no model of the Hub`, 'model', 'the form is hf:owner/repository:Q4_K_M@revision; the last two may be left out');
  }
  const at = encodeURIComponent(revision);
  // Through the cache, so that a model that is kept is found without a server too.
  const { bytes } = await readText(await open(`${HUB}/api/models/${repo}/revision/${at}`));
  const names = namesIn(bytes, name);
  const file = (path: string) => `${HUB}/${repo}/resolve/${at}/${path.split('/').map(encodeURIComponent).join('/')}`;
  return modelOf({ name, names, file }, quant);
}

const isDots = (part: string) => part === '.' || part === '..';

/** The files that the Hub's answer lists. */
function namesIn(bytes: Uint8Array, at: string): string[] {
  let files: unknown;
  try {
    files = (JSON.parse(new TextDecoder().decode(bytes)) as { siblings?: unknown } | null)?.siblings;
  } catch {
    // Reported below.
  }
  if (!Array.isArray(files)) throw new RlxError('io', 'the Hub\'s answer lists no files', { at, hint: 'try again later' });
  const names = files.map((file: { rfilename?: unknown } | null) => file?.rfilename);
  return names.filter((name): name is string => typeof name === 'string' && !name.split('/').some((part) => part === '' || isDots(part)));
}
