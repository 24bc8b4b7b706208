/** How the loaded model splits a text. */

import { effect, signal } from '@preact/signals';
import type { Engine } from 'rlx-wasm';
import { failureOf, loaded } from '../state/engine.js';
import type { Failure } from '../state/engine.js';

/** Of a text, and of the tokens that are shown one by one. */
export const MOST_LETTERS = 20_000;
export const MOST_SHOWN = 500;
/** Milliseconds after the last key. */
const PATIENCE = 100;

export interface Token {
  id: number;
  /** What it spells; half a character is U+FFFD. */
  text: string;
}

export interface Split {
  /** How many tokens there are, and the first of them. */
  count: number;
  tokens: readonly Token[];
  letters: number;
}

export const text = signal('Tokens are pieces of words: unbelievable, 12345, naïve, 日本語.');
export const split = signal<Split | undefined>(undefined);
export const splitFailure = signal<Failure | undefined>(undefined);

/** What tokens of a model spell, so that each is asked for once. */
const spelled = new WeakMap<Engine, Map<number, Promise<string>>>();
let timer: ReturnType<typeof setTimeout> | undefined;

effect(() => {
  const engine = loaded.value?.engine;
  const wanted = text.value;
  clearTimeout(timer);
  if (!engine) split.value = undefined;
  else timer = setTimeout(() => void splitBy(engine, wanted), PATIENCE);
});

async function splitBy(engine: Engine, wanted: string): Promise<void> {
  const current = () => loaded.peek()?.engine === engine && text.peek() === wanted;
  try {
    const ids = await engine.tokenize(wanted);
    const known = spelled.get(engine) ?? new Map<number, Promise<string>>();
    spelled.set(engine, known);
    const spell = async (id: number): Promise<Token> => {
      if (!known.has(id)) known.set(id, engine.detokenize([id]));
      return { id, text: await known.get(id)! };
    };
    const tokens = await Promise.all(Array.from(ids.subarray(0, MOST_SHOWN), spell));
    if (!current()) return;
    split.value = { count: ids.length, tokens, letters: [...wanted].length };
    splitFailure.value = undefined;
  } catch (error) {
    spelled.delete(engine);
    if (current()) splitFailure.value = failureOf(error);
  }
}
