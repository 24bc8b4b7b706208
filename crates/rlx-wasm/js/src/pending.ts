/** Promises that one event ends together, such as the end of what they wait for. */

import type { RlxError } from './error.js';

/**
 * `Promise.race` with one promise that stands for the event would do the same, and would keep the value of
 * every promise that ever took part for as long as the event does not come.
 */
export class Pending {
  readonly #open = new Set<(reason: RlxError) => void>();
  #over: RlxError | undefined;

  /** The same promise, that rejects with the reason of `end` if this comes first. */
  add<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const close = () => this.#open.delete(reject);
      promise.then(resolve, reject).finally(close);
      if (this.#over) reject(this.#over);
      else this.#open.add(reject);
    });
  }

  /** Rejects every promise that is pending, and every later one. */
  end(reason: RlxError): void {
    this.#over = reason;
    for (const reject of this.#open) reject(reason);
    this.#open.clear();
  }
}
