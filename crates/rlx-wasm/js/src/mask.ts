/** A mask: the pixels of an image that a model takes for a thing. */

import type { PageImageBitmap, PageImageData } from './dom_types.js';
import { RlxError, usage } from './error.js';
import type { MaskPaint } from './segment_types.js';

/** The pixels of an image that a model takes for a thing, and how sure it is of them. */
export class Mask {
  /**
   * @internal
   * `covered` has `width * height` bytes.
   */
  constructor(
    /** How much of the mask and the thing the model expects to be the same: from 0 to 1, or a little beyond. */
    readonly score: number,
    /** Pixels of a row; those of the image. */
    readonly width: number,
    /** Rows; those of the image. */
    readonly height: number,
    /** A byte for each pixel, row by row from the top: 1 if it is of the thing, else 0. */
    readonly covered: Uint8Array,
  ) {}

  /**
   * The mask as pixels of a canvas: covered ones have the colour, the others are transparent. Throws an `RlxError`:
   * `usage` (the colour), `unsupported` (there is no `ImageData` here, as in Node).
   */
  toImageData({ color = [0, 0, 0] }: MaskPaint = {}): PageImageData {
    const rgba = toRgba(color);
    if (typeof ImageData === 'undefined') throw new RlxError('unsupported', 'there is no ImageData here', { hint: 'covered has the pixels' });
    const image = new ImageData(this.width, this.height);
    // A pixel is one number: four bytes in the order in which they lie in memory.
    const pixels = new Uint32Array(image.data.buffer);
    const [value] = new Uint32Array(rgba.buffer);
    this.covered.forEach((of, i) => {
      if (of) pixels[i] = value!;
    });
    return image;
  }

  /**
   * The mask as an image for `drawImage`. With `globalCompositeOperation = 'destination-in'` and an opaque colour it
   * cuts the thing out of a canvas that has the image. Close it when it is drawn. Rejects as `toImageData`.
   */
  async toImageBitmap(paint: MaskPaint = {}): Promise<PageImageBitmap> {
    const image = this.toImageData(paint);
    return createImageBitmap(image);
  }
}

function toRgba(color: unknown): Uint8Array<ArrayBuffer> {
  const byte = (n: unknown) => Number.isInteger(n) && (n as number) >= 0 && (n as number) <= 255;
  if (!Array.isArray(color) || (color.length !== 3 && color.length !== 4) || !color.every(byte)) {
    throw usage(`color is ${String(color)}, it must be three or four whole numbers from 0 to 255`, 'color', 'give [red, green, blue, alpha]');
  }
  return Uint8Array.of(...(color as number[]), ...(color.length === 3 ? [255] : []));
}
