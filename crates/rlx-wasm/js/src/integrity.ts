/** The hashes that files of a load must have. */

import { addressOf } from './address.js';
import { RlxError, usage } from './error.js';
import type { KeepingOptions } from './models_types.js';
import { isAddress } from './options.js';
import { hexOf } from './sha256.js';
import type { FileSource } from './types.js';

/** Hashes by the names of files. */
export class Integrity {
  readonly #all: string | undefined;
  readonly #byName = new Map<string, string>();
  readonly #met = new Set<string>();
  #files = 0;

  constructor({ integrity }: Pick<KeepingOptions, 'integrity'>) {
    const hash = (text: unknown, of: string) => {
      const hex = hexOf(text);
      if (hex === undefined) throw usage(`${of} is no SHA-256: it must be 64 hexadecimal digits, or sha256- and base64`, 'integrity');
      return hex;
    };
    if (typeof integrity === 'object' && integrity !== null) {
      for (const [name, text] of Object.entries(integrity)) this.#byName.set(name, hash(text, `integrity of ${name}`));
    } else if (integrity !== undefined) {
      this.#all = hash(integrity, 'integrity');
    }
  }

  /** The hash that a file must have, if one was given. */
  of(item: FileSource): string | undefined {
    this.#files += 1;
    if (this.#all !== undefined && this.#files > 1) throw usage('integrity is one hash, and the model has several files', 'integrity', 'give an object of file names and hashes');
    const name = nameOf(item);
    this.#met.add(name);
    return this.#all ?? this.#byName.get(name);
  }

  /** Throws if a hash was given for a file that the model has not: it would be checked by nobody. */
  check(): void {
    const unmet = [...this.#byName.keys()].find((name) => !this.#met.has(name));
    if (unmet !== undefined) throw new RlxError('usage', `integrity names ${unmet}, and the model has no such file`, { at: 'integrity' });
  }
}

function nameOf(item: FileSource): string {
  if (!isAddress(item)) return (item as Partial<File>).name ?? '';
  const last = addressOf(item).pathname.split('/').at(-1)!;
  try {
    return decodeURIComponent(last);
  } catch {
    return last; // a lone % stands for itself
  }
}
