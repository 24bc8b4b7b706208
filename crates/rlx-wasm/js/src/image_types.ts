/** The public types of `ImageFeatures`. */

import type { NetworkOptions } from './session_types.js';
import type { FileSource, ModelSource } from './types.js';

export type { ImageInput, Pixels } from './image_source.js';

/** Options of `ImageFeatures.load`. */
export interface ImageFeaturesOptions extends NetworkOptions {
  /**
   * A model of images (ViT, DINOv2): the address of a folder, with `/` at its end, that has `config.json`,
   * `model.safetensors` and, if images are not prepared as the family usually does, `preprocessor_config.json`; or a
   * `.safetensors` file with `config`.
   */
  model: ModelSource;
  /** The `config.json` of a safetensors file. */
  config?: FileSource;
  /** The `preprocessor_config.json` of a safetensors file. */
  preprocessor?: FileSource;
}

/** Options of a call of `ImageFeatures`. */
export interface ImageCallOptions {
  /** Called after each image. */
  onProgress?: (progress: { done: number; total: number }) => void;
  /** Aborting it rejects with code `cancelled`. The running image ends before the next call begins. */
  signal?: AbortSignal;
}

/** Numbers of an image: `dims` are their sizes, outermost first. */
export interface ImageRows {
  data: Float32Array;
  dims: number[];
}
