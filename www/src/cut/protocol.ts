/** What the page and the thread of the model that finds things say to each other. */

import type { MaskPrompt } from 'rlx-wasm';

/** Beside a load: a photo to look at, in place of the one before, or a prompt about the photo. */
export type CutAsk = { look: ImageBitmap } | { prompt: MaskPrompt };

export interface Looked {
  milliseconds: number;
}

/** What was found. */
export interface Found {
  /** The thing's pixels are black, the others transparent. */
  mask: ImageBitmap;
  /** How much of it the model expects to be right, from 0 to 1 or a little beyond. */
  score: number;
  /** The part of the photo that it covers, from 0 to 1. */
  part: number;
  milliseconds: number;
}
