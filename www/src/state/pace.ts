/** How fast an answer comes: as it is seen, and as the engine measured it. */

import type { Usage } from 'rlx-wasm';
import type { Speed } from './types.js';

/** How often a running answer is stored, in milliseconds. */
const STORE_EVERY = 2000;

/** The speed as the engine measured it. */
export function exact(usage: Usage | undefined): Speed | undefined {
  if (!usage?.extra) return undefined;
  const { time_to_first_token_s: first, decode_tokens_per_s: rate } = usage.extra;
  return { tokens: usage.completion_tokens, firstTokenMs: first === null ? null : first * 1000, tokensPerSecond: rate };
}

/** Counts the pieces of an answer, and shows them at most once a frame. */
export class Pace {
  readonly #start = performance.now();
  readonly #show: (speed: Speed) => void;
  readonly #store: () => void;
  #first: number | undefined;
  #last = 0;
  #pieces = 0;
  #frame = 0;
  #stored = performance.now();

  constructor(show: (speed: Speed) => void, store: () => void) {
    this.#show = show;
    this.#store = store;
  }

  piece(): void {
    this.#last = performance.now();
    this.#first ??= this.#last;
    this.#pieces += 1;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#show(this.speed());
    });
    if (this.#last - this.#stored < STORE_EVERY) return;
    this.#stored = this.#last;
    this.#store();
  }

  end(): void {
    cancelAnimationFrame(this.#frame);
  }

  speed(): Speed {
    const first = this.#first;
    if (first === undefined) return { tokens: 0, firstTokenMs: null, tokensPerSecond: null };
    const seconds = (this.#last - first) / 1000;
    return {
      tokens: this.#pieces,
      firstTokenMs: first - this.#start,
      tokensPerSecond: seconds > 0 ? (this.#pieces - 1) / seconds : null,
    };
  }
}
