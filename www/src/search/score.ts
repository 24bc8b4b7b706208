/** The passages that are nearest to a question, and the words of the question in them. */

export interface Hit {
  /** Which passage. */
  at: number;
  /** The cosine of the angle between its vector and the question's: 1 is the same direction. */
  score: number;
}

/**
 * The `most` best of the first `count` vectors, the best one first. All vectors have length 1, one behind the other;
 * `query` says how long they are.
 */
export function nearest(vectors: Float32Array, count: number, query: Float32Array, most: number): Hit[] {
  const wanted = Float64Array.from(query);
  const found: Hit[] = [];
  let least = -Infinity;
  for (let at = 0; at < count; at += 1) {
    const score = dot(vectors, at * wanted.length, wanted);
    if (!(score > least)) continue; // equal ones stay in the order of the files; NaN is none
    let place = found.length;
    while (place > 0 && found[place - 1]!.score < score) place -= 1;
    found.splice(place, 0, { at, score });
    if (found.length > most) found.pop();
    if (found.length === most) least = found[most - 1]!.score;
  }
  return found;
}

/** The product of a row of `vectors` with `wanted`, in four sums that do not wait for each other. */
function dot(vectors: Float32Array, row: number, wanted: Float64Array): number {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  const whole = wanted.length & ~3;
  for (let i = 0; i < whole; i += 4) {
    const at = row + i;
    a += vectors[at]! * wanted[i]!;
    b += vectors[at + 1]! * wanted[i + 1]!;
    c += vectors[at + 2]! * wanted[i + 2]!;
    d += vectors[at + 3]! * wanted[i + 3]!;
  }
  for (let i = whole; i < wanted.length; i += 1) a += vectors[row + i]! * wanted[i]!;
  return a + b + (c + d);
}

/** Words that say nothing about what is asked. */
const COMMON = new Set(
  'a about all am an and any are as at be been but by can could did do does for from had has have how i if in into is it its me my no not of on or our should so than that the their them then there these they this to was we were what when where which who whom whose why will with would you your'.split(
    ' ',
  ),
);
const MOST_WORDS = 20;

/** A piece of a text; `marked` if it is a word of the question. */
export interface Piece {
  text: string;
  marked: boolean;
}

/** A text in pieces: words that begin as a word of the question are marked, but for the most common ones. */
export function marked(text: string, query: string): Piece[] {
  const wanted = (query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => !COMMON.has(word));
  const words = [...new Set(wanted)].slice(0, MOST_WORDS);
  if (words.length === 0) return text === '' ? [] : [{ text, marked: false }];
  const pieces: Piece[] = [];
  let from = 0;
  const add = (to: number, is: boolean) => {
    if (to > from) pieces.push({ text: text.slice(from, to), marked: is });
    from = to;
  };
  for (const { index, 0: word } of text.matchAll(
    new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.join('|')})[\\p{L}\\p{N}]*`, 'giu'),
  )) {
    add(index, false);
    add(index + word.length, true);
  }
  add(text.length, false);
  return pieces;
}
