/** A queue in which calls wait for their turn, in order. */

import { cancelled } from './error.js';
import type { RlxError } from './error.js';

interface Waiting {
  go: (release: () => void) => void;
  fail: (error: RlxError) => void;
}

export class Queue {
  #waiting: Waiting[] = [];
  #busy = false;
  #closed: RlxError | undefined;

  /**
   * Waits until every earlier turn has been released; resolves to the function that ends this turn.
   * Rejects with `cancelled` if `signal` fires first, or with the reason of `close` if that comes first.
   */
  turn(signal?: AbortSignal): Promise<() => void> {
    if (this.#closed) return Promise.reject(this.#closed);
    if (signal?.aborted) return Promise.reject(cancelled());
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting = this.#waiting.filter((other) => other !== entry);
        reject(cancelled('the call was cancelled while it waited'));
      };
      const entry: Waiting = {
        go: (release) => {
          signal?.removeEventListener('abort', leave);
          resolve(release);
        },
        fail: (error) => {
          signal?.removeEventListener('abort', leave);
          reject(error);
        },
      };
      signal?.addEventListener('abort', leave, { once: true });
      this.#waiting.push(entry);
      this.#next();
    });
  }

  /** How many calls wait for their turn. */
  get length(): number {
    return this.#waiting.length;
  }

  /** Rejects every waiting call, and every later one. */
  close(reason: RlxError): void {
    this.#closed = reason;
    for (const entry of this.#waiting.splice(0)) entry.fail(reason);
  }

  #next(): void {
    if (this.#busy) return;
    const entry = this.#waiting.shift();
    if (!entry) return;
    this.#busy = true;
    let released = false;
    entry.go(() => {
      if (released) return;
      released = true;
      this.#busy = false;
      this.#next();
    });
  }
}
