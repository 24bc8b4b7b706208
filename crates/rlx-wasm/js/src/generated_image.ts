/** An image that a model made. */

import type { PageImageBitmap, PageImageData } from './dom_types.js';
import { RlxError } from './error.js';
import type { Pixels } from './image_source.js';

const none = (what: string) => new RlxError('unsupported', `there is no ${what} here`, { hint: 'data has the pixels' });

/** An image that a model made of a prompt. Other classes of this package take it as it is. */
export class GeneratedImage implements Pixels {
  /**
   * @internal
   * `data` has `width * height * 4` bytes.
   */
  constructor(
    /** Pixels of a row. */
    readonly width: number,
    /** Rows. */
    readonly height: number,
    /** Four bytes a pixel, row by row from the top: red, green, blue, and 255. */
    readonly data: Uint8ClampedArray<ArrayBuffer>,
  ) {}

  /** The image as pixels of a canvas. Throws `unsupported` where there is no `ImageData`, as in Node. */
  toImageData(): PageImageData {
    if (typeof ImageData === 'undefined') throw none('ImageData');
    return new ImageData(this.data, this.width, this.height);
  }

  /** The image for `drawImage`. Close it when it is drawn. Rejects as `toImageData`. */
  async toImageBitmap(): Promise<PageImageBitmap> {
    const image = this.toImageData();
    return createImageBitmap(image);
  }

  /**
   * The image as a file: a PNG, or another type that the browser writes, with `quality` from 0 to 1. Rejects with
   * `unsupported` where there is no canvas, as in Node.
   */
  async toBlob({ type = 'image/png', quality }: { type?: string; quality?: number } = {}): Promise<Blob> {
    const image = this.toImageData();
    if (typeof OffscreenCanvas === 'undefined') throw none('canvas');
    const canvas = new OffscreenCanvas(this.width, this.height);
    const context = canvas.getContext('2d');
    if (!context) throw new RlxError('out_of_memory', `the browser gives no canvas of ${this.width} by ${this.height} pixels`);
    context.putImageData(image, 0, 0);
    return canvas.convertToBlob({ type, ...(quality !== undefined && { quality }) });
  }
}
