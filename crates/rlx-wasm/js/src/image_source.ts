/** Images of a page as pixels: RGBA, 8 bits a channel, row by row. */

import type { PageCanvas, PageImage, PageImageBitmap, PageImageData, PageOffscreenCanvas, PageVideo, PageVideoFrame } from './dom_types.js';
import { RlxError, usage } from './error.js';

/** An image in memory: `data` has four bytes a pixel (red, green, blue, alpha), row by row from the top. */
export interface Pixels {
  width: number;
  height: number;
  data: Uint8Array | Uint8ClampedArray;
}

/**
 * An image: a file (`Blob`), what a page shows or draws, a frame of a video, `ImageData`, or pixels in memory. Node and
 * workers without a canvas take pixels alone.
 */
export type ImageInput =
  | Blob | PageImageBitmap | PageImageData | PageImage | PageVideo | PageCanvas | PageOffscreenCanvas | PageVideoFrame
  | Pixels;

/** Most pixels of an image: 100 million. */
const MOST_PIXELS = 100e6;

const isPixels = (image: object): image is Pixels =>
  'data' in image && (image.data instanceof Uint8Array || image.data instanceof Uint8ClampedArray);

/**
 * The pixels of an image. Files are turned as their EXIF orientation says, and keep their numbers: no colour profile is
 * applied. Rejects with `usage` for what is no image, and `bad_file` for a file that the browser cannot read.
 */
export async function pixelsOf(image: ImageInput, at = 'image'): Promise<Pixels> {
  if (typeof image !== 'object' || image === null) throw usage(`${at} is no image`, at, 'give a Blob, an element, a canvas, a frame, ImageData, or { data, width, height }');
  if (isPixels(image)) {
    const { width, height, data } = image;
    sized(width, height, at);
    if (data.length !== width * height * 4) {
      throw usage(`${at} has ${data.length} bytes, ${width} by ${height} pixels need ${width * height * 4}`, at, 'give four bytes a pixel: red, green, blue, alpha');
    }
    return image;
  }
  if (typeof OffscreenCanvas === 'undefined') throw usage(`there is no canvas here to read ${at} by`, at, 'give { data, width, height }');
  if (image instanceof Blob) {
    let bitmap: ImageBitmap;
    try {
      bitmap = await createImageBitmap(image, { premultiplyAlpha: 'none', colorSpaceConversion: 'none' });
    } catch (cause) {
      throw new RlxError('bad_file', 'the browser cannot read this file as an image', { at: (image as File).name ?? at, hint: 'give a PNG, JPEG, WebP or another image that it shows', cause });
    }
    try {
      return drawn(bitmap, bitmap.width, bitmap.height, at);
    } finally {
      bitmap.close();
    }
  }
  const [width, height] = sizeOf(image);
  return drawn(image, width, height, at);
}

function sizeOf(image: Exclude<ImageInput, Blob | Pixels | ImageData>): [width: number, height: number] {
  if ('naturalWidth' in image) return [image.naturalWidth, image.naturalHeight];
  if ('videoWidth' in image) return [image.videoWidth, image.videoHeight];
  if ('displayWidth' in image) return [image.displayWidth, image.displayHeight];
  return [image.width, image.height];
}

function drawn(image: CanvasImageSource, width: number, height: number, at: string): Pixels {
  sized(width, height, at);
  const canvas = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
  if (!canvas) throw new RlxError('out_of_memory', `the browser gives no canvas of ${width} by ${height} pixels`, { at });
  try {
    canvas.drawImage(image, 0, 0, width, height);
    return canvas.getImageData(0, 0, width, height);
  } catch (cause) {
    if (cause instanceof TypeError) throw usage(`${at} is no image`, at, 'give a Blob, an element, a canvas, a frame, ImageData, or { data, width, height }');
    throw new RlxError('io', 'the browser does not let this page read the image', { at, hint: 'an image of another origin needs CORS: set crossorigin, and have its server allow this page', cause });
  }
}

function sized(width: number, height: number, at: string): void {
  const whole = Number.isSafeInteger(width) && Number.isSafeInteger(height) && width > 0 && height > 0;
  if (!whole) throw usage(`${at} has a size of ${width} by ${height} pixels`, at, 'wait until it is loaded, or give another');
  if (width * height > MOST_PIXELS) throw usage(`${at} has ${width} by ${height} pixels; at most ${MOST_PIXELS / 1e6} million are read`, at, 'make it smaller first');
}
