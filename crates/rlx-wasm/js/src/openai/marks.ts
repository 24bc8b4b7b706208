/** Marks in a text that comes piece by piece. */

/** The place of the first of some marks in a text; without one, of the end of the text that may begin one. */
export function firstMark(text: string, marks: readonly string[]): { at: number; mark?: string } {
  let found: { at: number; mark?: string } = { at: text.length };
  for (const mark of marks) {
    const at = text.indexOf(mark);
    if (at >= 0 && (at < found.at || (at === found.at && mark.length > (found.mark?.length ?? 0)))) found = { at, mark };
  }
  if (found.mark !== undefined) return found;
  const longest = Math.max(0, ...marks.map((mark) => mark.length - 1));
  for (let at = Math.max(0, text.length - longest); at < text.length; at++) {
    if (marks.some((mark) => mark.startsWith(text.slice(at)))) return { at };
  }
  return found;
}
