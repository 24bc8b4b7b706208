/** Figures of a benchmark: the middle and the spread of what was measured, and what memory allows. */

import { rate } from '../ui/format.js';
import type { Measured, Turn } from './types.js';

export interface Spread {
  median: number;
  least: number;
  most: number;
}

/** The middle of some numbers, their least and their most; undefined of none. */
export function spread(numbers: readonly (number | null)[]): Spread | undefined {
  const sorted = numbers.filter((each) => each !== null).sort((a, b) => a - b);
  if (sorted.length === 0) return undefined;
  const median = (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
  return { median, least: sorted[0]!, most: sorted.at(-1)! };
}

/** What is said of turns: the first prompt's are followed by a whole answer, the others' by its first tokens. */
const of = (turns: readonly Turn[], prompt: number | undefined, key: keyof Turn) =>
  spread(turns.filter((each) => each.asked === prompt).map((each) => each[key]));

export const promptRate = ({ turns }: Measured, prompt: number) => of(turns, prompt, 'prompt_tokens_per_s');
export const decodeRate = ({ turns }: Measured, [first]: readonly number[]) => of(turns, first, 'decode_tokens_per_s');
export const firstToken = ({ turns }: Measured, [first]: readonly number[]) => of(turns, first, 'first_token_ms');

/** Tokens a second if all weights are read once for each, and nothing else takes time. */
export function ceiling({ bandwidth, weight_bytes: weights }: Measured): number | undefined {
  return bandwidth && weights ? bandwidth.bytes_per_s / weights : undefined;
}

/** A rate, with a comma behind thousands. */
export const grouped = (perSecond: number): string => Number(rate(perSecond)).toLocaleString('en');
