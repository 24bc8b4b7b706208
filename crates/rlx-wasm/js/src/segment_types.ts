/** The public types of `Segmenter`. */

import type { NetworkOptions } from './session_types.js';
import type { FileSource, ModelSource } from './types.js';

export type { FoundThing } from './found_thing.js';
export type { Mask } from './mask.js';
export type { SeenImage } from './seen_image.js';

/** Options of `Segmenter.load`. */
export interface SegmenterOptions extends NetworkOptions {
  /**
   * A model that finds things in images (SAM, SAM 2, SAM 3): the address of a folder, with `/` at its end, that has
   * `config.json`, `model.safetensors` and, if images are not prepared as the family usually does,
   * `preprocessor_config.json` or `processor_config.json`; SAM 3 has `tokenizer.json` besides. Its name on the Hub,
   * `hf:facebook/sam-vit-base`, will do, or a `.safetensors` file with `config`, and with `tokenizer` for SAM 3.
   */
  model: ModelSource;
  /** The `config.json` of a safetensors file. */
  config?: FileSource;
  /** The `preprocessor_config.json` of a safetensors file. */
  preprocessor?: FileSource;
  /** The `tokenizer.json` of a safetensors file of a model that knows words. */
  tokenizer?: FileSource;
}

/** A place in an image, in its pixels from its top left corner: the first pixel's middle is at 0.5, 0.5. */
export interface MaskPoint {
  x: number;
  y: number;
  /** 1: the place is of the thing. 0: it is beside it, and the mask leaves it out. Default 1. */
  label?: 0 | 1;
}

/** What shows one thing of an image: points, a box, or both; at least one of them, at most 1,024 points. */
export interface MaskPrompt {
  points?: readonly MaskPoint[];
  /** A box around the thing: left, top, right, bottom, in pixels of the image. */
  box?: Box;
}

/** A box in an image: left, top, right, bottom, in pixels. */
export type Box = readonly [left: number, top: number, right: number, bottom: number];

/** What is to be found, of a model that knows words: words, boxes, or both; at least one of them, at most 256 boxes. */
export interface FindPrompt {
  /** Words for it, such as `red car`. */
  text?: string;
  /** Boxes around such things, or with label 0 around others that are not meant. */
  boxes?: readonly { box: Box; label?: 0 | 1 }[];
}

/** Options of `Segmenter.look`. */
export interface LookOptions {
  /** Aborting it rejects with code `cancelled`. The device ends what it has begun before the next call begins. */
  signal?: AbortSignal;
}

/** Options of `SeenImage.masks`. */
export interface MaskOptions extends LookOptions {
  /**
   * Whether to give every mask that the model offers: a single point may mean a thing, a part of it, or what it is
   * part of. Default false: the one mask that answers the prompt.
   */
  all?: boolean;
}

/** Options of `SeenImage.find`. */
export interface FindOptions extends LookOptions {
  /** How sure the model must be of a thing, from 0 to 1: things of that score and less are left out. Default 0.5. */
  threshold?: number;
}

/** How a mask is drawn. */
export interface MaskPaint {
  /**
   * The colour of covered pixels: red, green, blue and alpha, whole numbers from 0 to 255; alpha is 255 if left out.
   * What is not covered is transparent. Default: black.
   */
  color?: readonly [red: number, green: number, blue: number, alpha?: number];
}
