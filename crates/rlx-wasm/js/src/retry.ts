/** Errors that may pass, waits between tries, and the time that a server has to send something. */

import { cancelled, RlxError } from './error.js';

/** How often and how long a server that fails is asked again. */
export interface Patience {
  /** Tries in a row without `STEP_BYTES` of progress. */
  tries: number;
  /** Tries of a server that has not answered yet: its address may be wrong, or this page refused (CORS). */
  firstTries: number;
  /** The first wait; each further one is twice as long. A random half of it is left out, so that pages do not come back together. */
  pauseMs: number;
  /** The longest wait that a server may ask for (`Retry-After`). */
  longestMs: number;
  /** Without a byte for so long, a connection is given up. */
  stallMs: number;
}

export const PATIENCE: Patience = { tries: 5, firstTries: 3, pauseMs: 500, longestMs: 60_000, stallMs: 30_000 };

/** Bytes that count as progress: a server that breaks off sooner, again and again, fails in the end. */
const STEP_BYTES = 1 << 20;

/** An error of a connection or a server, which another try may not have. */
export class PassingError extends RlxError {
  constructor(what: string, more: { at: string; hint: string; cause?: unknown }, readonly waitMs = 0, readonly unreached = false) {
    super('io', what, more);
  }
}

/** Statuses that another try may not have: the server has no time, too many requests, or a fault. */
export const passes = (status: number): boolean => [408, 429, 500, 502, 503, 504].includes(status);

/** Milliseconds that a server asks to wait. */
export function retryAfter(headers: Headers, now = Date.now()): number {
  const text = headers.get('retry-after') ?? '';
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return ms > 0 ? ms : 0;
}

/** The tries of one file. */
export class Tries {
  #count = 0;
  #from = 0;

  constructor(private readonly patience: Patience) {}

  /** Waits until the next try, after one that ended with `error` at a byte. Throws the error if there is none. */
  async again(error: unknown, position: number, signal?: AbortSignal): Promise<void> {
    if (!(error instanceof PassingError)) throw error;
    if (position - this.#from >= STEP_BYTES) {
      this.#from = position;
      this.#count = 0;
    }
    this.#count += 1;
    const { tries, firstTries, pauseMs, longestMs } = this.patience;
    const most = error.unreached && position === 0 ? firstTries : tries;
    if (this.#count >= most || error.waitMs > longestMs) {
      const { what, at, hint, cause, waitMs } = error;
      const times = this.#count > 1 ? `, in ${this.#count} tries` : '';
      const wait = waitMs > longestMs ? `, and asks to wait ${Math.ceil(waitMs / 1000)} s` : '';
      throw new RlxError('io', what + times + wait, { at, hint, cause });
    }
    await sleep(Math.max(error.waitMs, pauseMs * 2 ** (this.#count - 1) * (1 - Math.random() / 2)), signal);
  }
}

/** Resolves after a while; rejects with `cancelled` at once if the signal fires. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(cancelled());
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}

/** When a byte arrived last, in any load of this page. */
let arrival = 0;

export const arrived = (): void => {
  arrival = Date.now();
};

/**
 * `work`, unless nothing happens for a while: then `late` is the error. A request may have to wait until other loads
 * give a connection back; as long as their bytes arrive (`shared`), it is not late.
 */
export function inTime<T>(work: Promise<T>, ms: number, late: () => RlxError, shared = false): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout>;
    const wait = (left: number) => {
      timer = setTimeout(() => {
        const since = Date.now() - arrival;
        if (shared && since < ms) wait(ms - since);
        else reject(late());
      }, left);
    };
    wait(ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
