/** Addresses of files. Where there is no page, as in Node, a text that is no URL is a path. */

import { usage } from './error.js';

/** A module of Node, Deno or Bun; undefined elsewhere. */
export function builtin<T>(name: string): T | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): unknown } };
  return process?.getBuiltinModule?.(name) as T | undefined;
}

/** Whether an address is of a file that this runtime reads itself. */
export const isOnDisk = (url: URL): boolean => url.protocol === 'file:' && builtin('node:fs') !== undefined;

export function addressOf(item: string | URL, at = 'model'): URL {
  const { document, location } = globalThis as Partial<typeof globalThis>;
  const base = document?.baseURI ?? location?.href;
  // `C:\models` parses as an address; no scheme has a single letter.
  const isPath = !(item instanceof URL) && base === undefined && (/^[a-z]:[\\/]/i.test(item) || !(URL.canParse(item) || /^[\w+.-]+:\/\//.test(item)));
  if (isPath) {
    const path = builtin<{ pathToFileURL(path: string): URL }>('node:url');
    if (path && item !== '') return path.pathToFileURL(item);
    throw usage(`${item} is relative, and there is no page that it could be relative to`, at, 'give a whole address, such as https://…');
  }
  try {
    return new URL(item, base);
  } catch {
    throw usage(`${String(item)} is no address`, at);
  }
}
