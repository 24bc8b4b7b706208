/** An image that a segmenter has seen. */

import { RlxError, throwIfAborted, usage } from './error.js';
import { pixelsOf } from './image_source.js';
import type { ImageInput } from './image_source.js';
import type { Live } from './live.js';
import { Mask } from './mask.js';
import type { MaskOptions, MaskPrompt } from './segment_types.js';

/** An image that a model has seen: what it saw stays in the device's memory, where every prompt reads it. */
export class SeenImage {
  /** Pixels of a row. */
  readonly width: number;
  /** Rows. */
  readonly height: number;
  readonly #live: Live;
  readonly #seen: number;
  #over = false;

  private constructor(live: Live, seen: number, width: number, height: number) {
    this.width = width;
    this.height = height;
    this.#live = live;
    this.#seen = seen;
  }

  /**
   * Finds what a prompt shows: masks as large as the image, the best first. Without `all` there is one. Prompts are
   * answered one after another, in the order of the calls.
   *
   * Rejects with an `RlxError`: `usage` (nothing is shown, a place that is no number or not in the image, an empty
   * box), `bad_file` (weights with which scores are no numbers), `out_of_memory`, `device_lost`, `cancelled` (the
   * signal), `disposed` (the image or its segmenter).
   */
  async masks(prompt: MaskPrompt, { all = false, signal }: MaskOptions = {}): Promise<Mask[]> {
    const live = this.#live;
    live.check();
    if (this.#over) throw new RlxError('disposed', 'the image was disposed', { hint: 'look at it again' });
    const { points, frame } = numbersOf(prompt);
    const { width, height } = this;
    return live.call(signal, async (wasm) => {
      wasm.findMasks(this.#seen, points, frame, all);
      const scores = JSON.parse(await wasm.masks()) as number[];
      return scores.map((score, i) => new Mask(score, width, height, wasm.mask(i)));
    });
  }

  /** Frees what is kept of it on the device, once calls that were made before have ended. Calling it again does nothing. */
  dispose(): void {
    if (this.#over) return;
    this.#over = true;
    this.#live.freeSeen(this.#seen);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** @internal Lets the segmenter of `live` see an image. */
  static async of(live: Live, image: ImageInput, signal: AbortSignal | undefined): Promise<SeenImage> {
    live.check();
    throwIfAborted(signal);
    const { data, width, height } = await pixelsOf(image);
    let seen: SeenImage | undefined;
    try {
      return await live.call(signal, async (wasm) => {
        wasm.look(width, height, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
        seen = new SeenImage(live, Number(await wasm.seen()), width, height);
        // The caller, who cancelled while the answer was on its way, will not dispose it.
        if (signal?.aborted) seen.dispose();
        return seen;
      });
    } catch (error) {
      seen?.dispose();
      throw error;
    }
  }
}

/** A prompt as the module takes it; the places are compared with the image there. */
function numbersOf(prompt: MaskPrompt): { points: Float64Array; frame: Float64Array } {
  if (typeof prompt !== 'object' || prompt === null) throw usage('masks takes an object with points or a box', 'prompt');
  for (const key of Object.keys(prompt)) {
    if (key !== 'points' && key !== 'box') throw usage(`${key} is not part of a prompt`, key, 'give points, a box or both');
  }
  const { points = [] } = prompt;
  const box: readonly number[] = prompt.box ?? [];
  if (!Array.isArray(points)) throw usage('points is no array', 'points', 'give [{ x, y, label }, …]');
  if (!Array.isArray(box) || (prompt.box && box.length !== 4) || !box.every(Number.isFinite)) {
    throw usage(`box is ${String(box)}, it must be four numbers`, 'box', 'give [left, top, right, bottom]');
  }
  const numbers = points.flatMap((point: Partial<Record<'x' | 'y' | 'label', unknown>> | null, i) => {
    const { x, y, label = 1 } = point ?? {};
    if (!Number.isFinite(x) || !Number.isFinite(y)) throw usage(`points[${i}] has x ${String(x)} and y ${String(y)}, they must be numbers`, `points[${i}]`);
    if (label !== 0 && label !== 1) throw usage(`points[${i}] has label ${String(label)}, it must be 0 or 1`, `points[${i}]`, '1: of the thing, 0: beside it');
    return [x as number, y as number, label];
  });
  return { points: Float64Array.from(numbers), frame: Float64Array.from(box) };
}
