/** Promises that one event rejects together, such as the end of an instance. */

import type { RlxError } from './error.js';

/**
 * `Promise.race` with a promise of the event would do the same, but it would keep the value of every promise
 * that took part until the event comes.
 */
export class Pending {
  readonly #open = new Set<(reason: RlxError) => void>();
  #over: RlxError | undefined;

  /** The same promise, which rejects with the reason of `end` if that comes first. */
  add<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const close = () => this.#open.delete(reject);
      promise.then(resolve, reject).finally(close);
      if (this.#over) reject(this.#over);
      else this.#open.add(reject);
    });
  }

  /** Rejects every pending promise, and every later one. */
  end(reason: RlxError): void {
    this.#over = reason;
    for (const reject of this.#open) reject(reason);
    this.#open.clear();
  }
}
