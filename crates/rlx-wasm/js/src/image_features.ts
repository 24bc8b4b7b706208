/** `ImageFeatures`: computes vectors of images. */

import type { Running } from './bring.js';
import { RlxError, throwIfAborted, usage } from './error.js';
import { pixelsOf } from './image_source.js';
import type { ImageInput } from './image_source.js';
import type { ImageCallOptions, ImageFeaturesOptions, ImageRows } from './image_types.js';
import { Live } from './live.js';
import { heard, listening } from './listeners.js';
import { bringNetwork } from './network.js';
import { imageFiles } from './network_files.js';
import { platform } from './platform.js';
import type { SessionInfo } from './session_types.js';
import { toData } from './tensors.js';
import type { WasmOutput, WasmSession } from './wasm_session.js';

/** The entry, its input, and its outputs: rows, and one vector of each image. */
const ENTRY = 'encode';
const PIXELS = 'pixel_values';
const [ROWS, VECTOR] = ['hidden', 'pooler_output'];

export class ImageFeatures {
  readonly #live: Live;

  private constructor(running: Running<WasmSession>) {
    this.#live = new Live(running, 'image model');
  }

  /**
   * Loads a model that makes vectors of images. This fetches the wasm module's build for such networks.
   *
   * Rejects with an `RlxError`: `usage` (an option), `unsupported` (a model of another kind), else as `Engine.load`.
   */
  static async load(options: ImageFeaturesOptions): Promise<ImageFeatures> {
    return new ImageFeatures(await bringNetwork(heard(options), imageFiles(options), { features: true }));
  }

  /**
   * Computes a vector of each image, in the order of the images: the model's own vector of the whole image. Images are
   * resized, cut and scaled as the model's `preprocessor_config.json` says, and run one after another; between them the
   * page gets its turn and `signal` is checked.
   *
   * Rejects with an `RlxError`: `usage`, `bad_file` (an image), `out_of_memory`, `device_lost`, `cancelled`, `disposed`.
   */
  async embed(images: readonly ImageInput[], { signal, onProgress }: ImageCallOptions = {}): Promise<Float32Array[]> {
    this.#live.check();
    if (!Array.isArray(images)) throw usage('embed takes an array of images', 'images');
    const all = [...images] as ImageInput[];
    const tell = onProgress && listening(onProgress);
    const vectors: Float32Array[] = [];
    for (const [i, image] of all.entries()) {
      const { data } = await this.#output(image, `images[${i}]`, VECTOR, signal);
      vectors.push(data);
      tell?.({ done: vectors.length, total: all.length });
      await platform.yieldToPage();
    }
    return vectors;
  }

  /** The model's rows of an image, one a patch behind those of the whole image. Rejects as `embed`. */
  rows(image: ImageInput, { signal }: Pick<ImageCallOptions, 'signal'> = {}): Promise<ImageRows> {
    return this.#output(image, 'image', ROWS, signal);
  }

  async #output(image: ImageInput, at: string, output: string, signal: AbortSignal | undefined): Promise<ImageRows> {
    this.#live.check();
    throwIfAborted(signal);
    const { data, width, height } = await pixelsOf(image, at);
    return this.#live.call(signal, async (wasm) => {
      wasm.inputImage(PIXELS, width, height, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      wasm.start(ENTRY, []);
      const outputs = JSON.parse(await wasm.outputs()) as WasmOutput[];
      const i = outputs.findIndex(({ name }) => name === output);
      if (i < 0) throw new RlxError('unsupported', 'the model makes no vector of a whole image', { hint: 'the first of `rows` stands for the whole image' });
      const { dims } = outputs[i]!;
      return { data: toData('f32', wasm.output(i)) as Float32Array, dims: dims.slice(1) };
    });
  }

  /** The device and the model. */
  info(): SessionInfo {
    return this.#live.info();
  }

  /** Frees the model's memory. Calls that wait or run end with code `disposed`. Calling it again does nothing. */
  dispose(): void {
    this.#live.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
