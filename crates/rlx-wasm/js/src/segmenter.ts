/** `Segmenter`: finds the pixels of things in images. */

import type { Running } from './bring.js';
import type { ImageInput } from './image_source.js';
import { Live } from './live.js';
import { heard } from './listeners.js';
import { bringNetwork } from './network.js';
import { segmenterFiles } from './network_files.js';
import { SeenImage } from './seen_image.js';
import type { LookOptions, SegmenterOptions } from './segment_types.js';
import type { SessionInfo } from './session_types.js';
import type { WasmSession } from './wasm_session.js';

/**
 * A model that finds the pixels of things in images. An image is seen once, then prompts are answered: points and boxes
 * by Segment Anything (arXiv:2304.02643) and SAM 2 (arXiv:2408.00714), words and boxes by SAM 3 (arXiv:2511.16719).
 */
export class Segmenter {
  /**
   * Whether the model is told by words what to find, and finds every such thing: `SeenImage.find` asks it. Others are
   * shown one thing by places: `SeenImage.masks` asks them.
   */
  readonly knowsWords: boolean;
  readonly #live: Live;

  private constructor(running: Running<WasmSession>) {
    this.knowsWords = running.wasm.knowsWords() ?? false;
    this.#live = new Live(running, 'segmenter');
  }

  /**
   * Loads a model that finds things in images. This fetches the wasm module's build for such networks.
   *
   * Rejects with an `RlxError`: `usage` (an option), `unsupported` (a model of another kind), else as `Engine.load`.
   */
  static async load(options: SegmenterOptions): Promise<Segmenter> {
    return new Segmenter(await bringNetwork(heard(options), segmenterFiles(options), { segment: true }));
  }

  /**
   * Lets the model see an image, which is the long part: afterwards a prompt is answered in a moment, as often as
   * one likes. What the model saw stays on the device, until `dispose` of what this returns.
   *
   * Rejects with an `RlxError`: `usage`, `bad_file` (an image), `out_of_memory`, `device_lost`, `cancelled`, `disposed`.
   */
  look(image: ImageInput, { signal }: LookOptions = {}): Promise<SeenImage> {
    return SeenImage.of(this.#live, image, signal);
  }

  /** The device and the model. */
  info(): SessionInfo {
    return this.#live.info();
  }

  /**
   * Frees the model's memory and what is kept of images. Calls that wait or run end with code `disposed`. Calling it
   * again does nothing.
   */
  dispose(): void {
    this.#live.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
