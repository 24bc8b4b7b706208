/** What the page and the thread of the model that finds things say to each other. */

import type { FindPrompt, MaskPrompt } from 'rlx-wasm';
import type { Where } from '../state/thread_types.js';

/** Beside a load: a photo to look at, in place of the one before, or a prompt about the photo: places, or words. */
export type CutAsk = { look: ImageBitmap } | { prompt: MaskPrompt } | { question: FindPrompt };

export interface CutterInfo extends Where {
  /** Whether it is told by words what to find, and finds every such thing. */
  knowsWords: boolean;
}

export interface Looked {
  milliseconds: number;
}

/** What was found. */
export interface Found {
  /** The pixels of what was found are black, the others transparent. */
  mask: ImageBitmap;
  /** How much of the thing, or of the surest, the model expects to be right: from 0 to 1 or a little beyond. */
  score: number;
  /** How many things were found: by places one. */
  count: number;
  /** The part of the photo that it covers, from 0 to 1. */
  part: number;
  milliseconds: number;
}
