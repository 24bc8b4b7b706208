/**
 * How one thread hears that another has ended. A port does not tell it in every browser, so the other thread holds a
 * lock for as long as it lives, and this one waits for that.
 */

const locks = (globalThis.navigator as { locks?: LockManager } | undefined)?.locks;

let held: Promise<string | undefined> | undefined;

/** The name of the lock that this thread holds; undefined if it gets none. */
export function lifeLock(): Promise<string | undefined> {
  return (held ??= new Promise((resolve) => {
    if (!locks) return resolve(undefined);
    const name = `rlx-life-${crypto.randomUUID()}`;
    const hold = () => {
      resolve(name);
      return new Promise<never>(() => {});
    };
    locks.request(name, hold).catch(() => resolve(undefined)); // denied here
  }));
}

/** Calls `then` when the thread that holds a lock has ended; the function that it returns stops the waiting. */
export function whenOver(lock: string | undefined, then: () => void): () => void {
  const abort = new AbortController();
  if (lock !== undefined) locks?.request(lock, { signal: abort.signal }, then).catch(() => {});
  return () => abort.abort();
}
