/** A thing that a model found by words. */

import { Mask } from './mask.js';
import type { Box } from './segment_types.js';

/** A thing that a model found: its pixels, how sure the model is of it (`score`, from 0 to 1), and a box around it. */
export class FoundThing extends Mask {
  /** @internal */
  constructor(
    score: number, width: number, height: number, covered: Uint8Array,
    /** The model's box around the thing, in pixels of the image. */
    readonly box: Box,
  ) {
    super(score, width, height, covered);
  }
}
