/** Splits a text into passages that a model reads at once: along paragraphs and headings, else lines, sentences, words. */

/** A part of a text, as a range of it. */
export interface Passage {
  start: number;
  end: number;
  /** The line it begins in, from 1. */
  line: number;
  /** The heading it stands under; empty if there is none. */
  heading: string;
}

/** What is not cut further: a line, a sentence, or a few words. */
interface Unit {
  start: number;
  end: number;
  line: number;
  weight: number;
  /** A paragraph or a section begins here. */
  begins: 'paragraph' | 'section' | undefined;
}

const HEADING = /^#{1,6}[ \t]+(\S.*)$/;
const HEADING_LENGTH = 120;

/**
 * About how many tokens a text has: words are a token for each six letters, and every other character is one. The
 * estimate is high rather than low, so that the model cuts few passages.
 */
export function weigh(text: string): number {
  let sum = 0;
  for (const [part] of text.matchAll(/[A-Za-z0-9]+|[^\sA-Za-z0-9]/gu))
    sum += part.length < 7 ? 1 : Math.ceil(part.length / 6);
  return sum;
}

/**
 * The passages of a text, each of about `limit` tokens at most. Where one ends inside of a paragraph, the next begins
 * with its last sentence. `headings`: lines that begin with `#` are headings.
 */
export function passagesOf(text: string, limit = 200, headings = false): Passage[] {
  const units = unitsOf(text, limit, headings);
  const found: Passage[] = [];
  let heading = '';
  let named = 0;
  for (let from = 0; from < units.length;) {
    let end = from;
    let paragraph = 0;
    for (let sum = 0; end < units.length; end += 1) {
      const { weight, begins } = units[end]!;
      if (end > from && (sum + weight > limit || (begins === 'section' && sum > limit / 4))) break;
      if (end > from && begins && sum >= limit / 2) paragraph = end;
      sum += weight;
    }
    // A paragraph that does not fit whole goes to the next passage, unless little would be left here.
    if (end < units.length && units[end]!.begins === undefined && paragraph > 0) end = paragraph;
    for (; named <= from; named += 1) if (units[named]!.begins === 'section') heading = headingAt(text, units[named]!);
    const { start, line } = units[from]!;
    const passage = { start, end: units[end - 1]!.end, line, heading };
    if (/[\p{L}\p{N}]/u.test(text.slice(passage.start, passage.end))) found.push(passage);
    const [last, next] = [units[end - 1]!, units[end]];
    const again =
      next && !next.begins && end - 1 > from && last.weight <= limit / 6 && last.weight + next.weight <= limit;
    from = again ? end - 1 : end;
  }
  return found;
}

const headingAt = (text: string, { start, end }: Unit) =>
  (HEADING.exec(text.slice(start, Math.min(end, start + HEADING_LENGTH)))?.[1] ?? '').replace(/[ \t#]+$/, '');

function unitsOf(text: string, limit: number, headings: boolean): Unit[] {
  const units: Unit[] = [];
  let line = 0;
  let begins: Unit['begins'] = 'paragraph';
  for (let start = 0; start < text.length;) {
    const stop = text.indexOf('\n', start);
    const end = stop < 0 ? text.length : stop;
    line += 1;
    const content = text.slice(start, end);
    if (content.trim() === '') begins ??= 'paragraph';
    else {
      if (headings && HEADING.test(content.slice(0, HEADING_LENGTH))) begins = 'section';
      for (const [from, to] of parts(content, limit)) {
        const trimmed = content.slice(from, to).trimEnd().length;
        units.push({
          start: start + from,
          end: start + from + trimmed,
          line,
          weight: weigh(content.slice(from, to)),
          begins,
        });
        begins = undefined;
      }
    }
    start = end + 1;
  }
  return units;
}

/** The ranges of a line that are not cut further: the whole line if it is short, else its sentences, and words of these. */
function* parts(line: string, limit: number): Generator<[number, number]> {
  if (line.length < limit) return yield [0, line.length];
  let from = 0;
  for (const { index, 0: gap } of line.matchAll(/(?<=[.!?…][)"'»”’]?)\s+|(?<=[。！？])\s*/gu)) {
    const to = index + gap.length;
    if (to > from) yield* words(line, from, to, limit);
    from = to;
  }
  if (from < line.length) yield* words(line, from, line.length, limit);
}

/** Ranges of whole words with at most `limit` characters, so that none has more tokens; longer words are cut. */
function* words(line: string, from: number, to: number, limit: number): Generator<[number, number]> {
  while (to - from > limit) {
    const space = line.slice(from, from + limit).lastIndexOf(' ');
    let cut = from + (space > 0 ? space + 1 : limit);
    // Not between the halves of a character.
    if (/[\udc00-\udfff]/.test(line[cut]!)) cut -= 1;
    yield [from, cut];
    from = cut;
  }
  yield [from, to];
}
