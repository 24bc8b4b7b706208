/** What is remembered of this machine's GPUs for this origin: texts by key, in `localStorage`. */

/** How kernels are shaped, by adapter and version. */
export const TUNINGS = 'rlx.tunings';
/** Which of them work, by that and the kernels that were checked. */
export const CHECKS = 'rlx.checks';

/** Texts kept under one name; the oldest go. */
const MOST = 64;

/** Every text under a name; none where a page has no storage, as in a worker. */
export function kept(name: string): { [key: string]: string } {
  try {
    const texts: unknown = JSON.parse(globalThis.localStorage.getItem(name) ?? '{}');
    return typeof texts === 'object' && texts !== null ? texts as { [key: string]: string } : {};
  } catch {
    return {};
  }
}

/** Keeps a text; false where there is no room for it, or no storage. */
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
