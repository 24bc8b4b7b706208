/** The public types of `ImageGenerator`. */

import type { GeneratedImage } from './generated_image.js';
import type { NetworkOptions } from './session_types.js';
import type { LoadProgress, ModelSource } from './types.js';

export type { GeneratedImage } from './generated_image.js';

/** A model of a pipeline, by its folder: it reads the prompt, makes the image step by step, or makes pixels of it. */
export type PipelineModel = 'text_encoder' | 'transformer' | 'vae';

/** Options of `ImageGenerator.load`. */
export interface ImageGeneratorOptions extends Omit<NetworkOptions, 'integrity'> {
  /**
   * A pipeline of FLUX.2 klein: the address of its folder, with `/` at its end; its name on the Hub,
   * `hf:black-forest-labs/FLUX.2-klein-4B`; a directory handle, or the list of files that a page is given with a
   * folder. It has `model_index.json` and the folders `text_encoder`, `transformer`, `vae`, `tokenizer` and
   * `scheduler`, as diffusers writes them. Models in several files need their index beside them.
   */
  model: ModelSource;
  /**
   * Whether all models stay on the device. Default false: each is loaded from the browser's storage when an image needs
   * it, in place of the others, so the device's memory holds the largest of them (of the 4B pipeline 8 GB), and not all
   * (16 GB). With true the next image waits for no model.
   */
  resident?: boolean;
}

/** What is told of a step. */
export interface ImageStep {
  /** Steps that are done, from 1. */
  step: number;
  /** All steps. */
  steps: number;
  /** The image so far; absent without `preview`, and in the last step, behind which the image itself comes. */
  preview?: GeneratedImage;
}

/** Options of `generate`. */
export interface GenerateImageOptions {
  /**
   * Pixels of a row and rows: multiples of `sizeStep`, at most 4096. Default 512. The decoder needs 2.6 kB
   * of memory for each pixel (0.7 GB for 512 x 512, 2.7 GB for 1024 x 1024), in bindings of at least 1 kB for each.
   */
  width?: number;
  height?: number;
  /** Steps from noise to image, 1 to 1000. Default: `usualSteps` of the generator. */
  steps?: number;
  /** Chooses the noise, a whole number from 0: the same gives the same noise on every device. Default 0. */
  seed?: number;
  /**
   * How strongly the prompt is preferred to no prompt, from 1 on. Default 4. A pipeline that is not `guided` takes none.
   */
  guidance?: number;
  /**
   * Whether every step shows the image so far. It costs time and memory: what makes pixels of the last step (`vae`)
   * makes them of every step, and is on the device beside the transformer. Default false.
   */
  preview?: boolean;
  /** Called after each step. */
  onStep?: (step: ImageStep) => void;
  /** Called while a model is put on the device again, which is not there when the image needs it. */
  onLoad?: (progress: LoadProgress & { model: PipelineModel }) => void;
  /** Aborting it rejects with code `cancelled` at once. The device ends the step that it has begun, and begins no other. */
  signal?: AbortSignal;
}
