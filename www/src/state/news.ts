/** Short news at the edge of the page: something was removed and may come back, something is not kept. */

import { signal } from '@preact/signals';

export interface News {
  id: number;
  text: string;
  /** A button, such as `Undo`. */
  action?: { label: string; run: () => void };
}

/** Milliseconds that news with nothing to press stay. */
const STAYS = 10_000;
let count = 0;

export const news = signal<readonly News[]>([]);

export function say(text: string, action?: News['action']): void {
  const id = ++count;
  news.value = [...news.value.filter((each) => each.text !== text), { id, text, ...(action && { action }) }].slice(-3);
  if (!action) setTimeout(() => dismiss(id), STAYS);
}

export function dismiss(id: number): void {
  news.value = news.value.filter((each) => each.id !== id);
}
