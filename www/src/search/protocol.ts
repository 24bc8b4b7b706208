/** What the page and the thread of the encoder say to each other. */

import type { Where } from '../state/thread_types.js';

/** Beside a load: texts to make vectors of. */
export interface EmbedAsk {
  embed: readonly string[];
}

/** What the encoder is, once it is loaded. */
export interface EncoderInfo extends Where {
  width: number;
  maxTokens: number;
}

/** Vectors one behind the other, and how many of the texts were longer than the model reads. */
export interface Vectors {
  vectors: Float32Array<ArrayBuffer>;
  truncated: number;
}
