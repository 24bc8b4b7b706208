/** The question, and the passages that answer it best. */

import { effect, signal } from '@preact/signals';
import { reader, slot } from './model.js';
import { index } from './state.js';
import type { Indexed } from './state.js';
import { nearest } from './score.js';

export interface Result {
  passage: Indexed;
  score: number;
}

export interface Answer {
  query: string;
  results: readonly Result[];
  /** How many passages were compared. */
  of: number;
}

/** How many passages are shown. */
export const MOST_RESULTS = 10;
/** Milliseconds after the last key until it is searched. */
const PATIENCE = 150;
/** Of a question; the model reads no more of one anyway. */
export const MOST_LETTERS = 1000;

export const query = signal('');
export const answer = signal<Answer | undefined>(undefined);

/** The vector of the last question, so that it is asked again for nothing while files are read. */
let known: { query: string; by: unknown; vector: Float32Array } | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
let asked = 0;

// Another question is searched after a moment.
effect(() => {
  const wanted = query.value.trim();
  clearTimeout(timer);
  asked += 1;
  if (!reader.value || wanted === '') answer.value = undefined;
  else timer = setTimeout(() => void search(wanted), PATIENCE);
});

// More passages, or others, are compared with the question at once.
effect(() => {
  if (!index.value) answer.value = undefined;
  else if (known && known.query === query.peek().trim() && known.by === reader.peek()) show(known.query, known.vector);
});

async function search(wanted: string): Promise<void> {
  const by = reader.value;
  if (!by) return;
  const own = asked;
  try {
    const { vectors } = await by.encoder.embed([wanted]);
    known = { query: wanted, by, vector: vectors };
    if (query.value.trim() === wanted) show(wanted, vectors);
  } catch (error) {
    if (own === asked && reader.value === by) slot.lose(error);
  }
}

function show(wanted: string, vector: Float32Array): void {
  const all = index.peek();
  if (!all || vector.length !== all.width) return;
  const hits = nearest(all.vectors, all.done, vector, MOST_RESULTS);
  const results = hits.map(({ at, score }) => ({ passage: all.passages[at]!, score }));
  answer.value = { query: wanted, results, of: all.done };
}
