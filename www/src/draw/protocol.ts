/** What the page and the thread of the pipeline that draws say to each other. */

import type { GenerateImageOptions, LoadProgress, PipelineModel } from 'rlx-wasm';
import type { Where } from '../state/thread_types.js';

/** Beside a load: a picture to draw, or the end of the one that is being drawn. */
export type DrawAsk = { draw: Order } | { stop: true };

export interface Order extends Pick<GenerateImageOptions, 'steps' | 'preview'> {
  prompt: string;
  width: number;
  height: number;
  seed: number;
}

export interface DrawerInfo extends Where {
  /** Pixels that sizes are multiples of. */
  sizeStep: number;
  usualSteps: number;
}

/** How far a picture is: a model is put on the device again, or a step is done. */
export type DrawTold =
  { loading: PipelineModel; progress: LoadProgress } | { step: number; steps: number; preview?: ImageBitmap };

export interface Drawn {
  bitmap: ImageBitmap;
  png: Blob;
  milliseconds: number;
}
