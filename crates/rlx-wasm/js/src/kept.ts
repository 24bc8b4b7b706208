/**
 * Stored facts about this machine's GPUs, for this origin: texts by key, in the page's `localStorage`. A worker has
 * none: the page lends it a copy, and stores what the worker finds.
 */

/** Tunings, by adapter and version. */
export const TUNINGS = 'rlx.tunings';
/** Verdicts of self-tests, by adapter, version and kernels. */
export const CHECKS = 'rlx.checks';
/** What `auto` has timed, by adapter, version, class of model and build for the CPU. */
export const SPEEDS = 'rlx.speeds';
/** What the forms of a GPU's products took, by adapter, version, kind of model and forms. */
export const TIMES = 'rlx.times';

/** Most texts under one name; the oldest are removed. */
const MOST = 64;

export interface Texts {
  [key: string]: string;
}

/** What a page lends to a worker: texts by name and key. */
export interface Lent {
  [name: string]: Texts;
}

let borrowed: { texts: Lent; tell: (name: string, key: string, text: string) => void } | undefined;

/** Everything that is stored, to be lent to a worker. */
export const lend = (): Lent => (Object.fromEntries([TUNINGS, CHECKS, SPEEDS, TIMES].map((name) => [name, kept(name)])));

/** From now on `texts` are what is stored here, and `tell` is told what is to be stored. */
export function borrow(texts: Lent, tell: (name: string, key: string, text: string) => void): void {
  borrowed = { texts, tell };
}

/** Every text under a name; none if there is no storage. */
export function kept(name: string): Texts {
  if (borrowed) return borrowed.texts[name] ?? {};
  try {
    const texts: unknown = JSON.parse(globalThis.localStorage.getItem(name) ?? '{}');
    return typeof texts === 'object' && texts !== null ? texts as Texts : {};
  } catch {
    return {};
  }
}

/** Stores a text; false if there is no room for it, or no storage. */
export function keep(name: string, key: string, text: string): boolean {
  const { [key]: _, ...others } = kept(name);
  const texts = Object.fromEntries([...Object.entries(others), [key, text]].slice(-MOST)) as Texts;
  if (borrowed) {
    borrowed.texts[name] = texts;
    borrowed.tell(name, key, text);
    return true;
  }
  try {
    globalThis.localStorage.setItem(name, JSON.stringify(texts));
    return true;
  } catch {
    return false;
  }
}
