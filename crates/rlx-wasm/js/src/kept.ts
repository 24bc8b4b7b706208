/** Stored facts about this machine's GPUs, for this origin: texts by key, in `localStorage`. */

/** Tunings, by adapter and version. */
export const TUNINGS = 'rlx.tunings';
/** Verdicts of self-tests, by adapter, version and kernels. */
export const CHECKS = 'rlx.checks';

/** Most texts under one name; the oldest are removed. */
const MOST = 64;

/** Every text under a name; none if there is no storage, as in a worker. */
export function kept(name: string): { [key: string]: string } {
  try {
    const texts: unknown = JSON.parse(globalThis.localStorage.getItem(name) ?? '{}');
    return typeof texts === 'object' && texts !== null ? texts as { [key: string]: string } : {};
  } catch {
    return {};
  }
}

/** Stores a text; false if there is no room for it, or no storage. */
export function keep(name: string, key: string, text: string): boolean {
  try {
    const { [key]: _, ...others } = kept(name);
    const texts = [...Object.entries(others), [key, text]].slice(-MOST);
    globalThis.localStorage.setItem(name, JSON.stringify(Object.fromEntries(texts)));
    return true;
  } catch {
    return false;
  }
}
