/** The model that comes with the page, and the one that the address names. */

import type { Source } from './engine.js';

export const BUILT_IN: Source = {
  name: 'rustdoc-29m',
  model: [1, 2, 3].map((n) => `rustdoc-29m/rustdoc-29m-q4_k_m-0000${n}-of-00003.gguf`),
  settings: { temperature: 0 },
  questions: [
    'What does Vec::push do?',
    'What is ownership?',
    'Show an example of Option::map.',
    'How do I read a file to a string?',
    'What is the difference between String and &str?',
  ],
};

/** `?model=` with addresses of shards, separated by commas. */
export function fromAddress(search: string): Source | undefined {
  const given = new URLSearchParams(search).get('model');
  if (!given) return undefined;
  const parts = given.split(',');
  return { name: nameOf(parts[0]!), model: parts };
}

/** The last part of an address, without what all have. */
export function nameOf(address: string): string {
  const file = address.split(/[?#]/)[0]!.replace(/\/+$/, '').split('/').pop()!;
  return file.replace(/(-\d{5}-of-\d{5})?\.gguf$/i, '') || address;
}
