/** An image that a segmenter has seen. */

import { RlxError, throwIfAborted, usage } from './error.js';
import { FoundThing } from './found_thing.js';
import { pixelsOf } from './image_source.js';
import type { ImageInput } from './image_source.js';
import type { Live } from './live.js';
import { Mask } from './mask.js';
import type { FindOptions, FindPrompt, MaskOptions, MaskPrompt } from './segment_types.js';
import type { WasmThing } from './wasm_session.js';

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
   * Rejects with an `RlxError`: `usage` (a model that knows words, nothing is shown, a place that is no number or not in the image, an empty
   * box), `bad_file` (weights with which scores are no numbers), `out_of_memory`, `device_lost`, `cancelled` (the
   * signal), `disposed` (the image or its segmenter).
   */
  async masks(prompt: MaskPrompt, { all = false, signal }: MaskOptions = {}): Promise<Mask[]> {
    this.#check();
    const { points, frame } = numbersOf(prompt);
    const { width, height } = this;
    return this.#live.call(signal, async (wasm) => {
      wasm.findMasks(this.#seen, points, frame, all);
      const scores = JSON.parse(await wasm.masks()) as number[];
      return scores.map((score, i) => new Mask(score, width, height, wasm.mask(i)));
    });
  }

  /**
   * Finds every thing that words, or boxes around such things, mean, with a model that knows words: the surest first,
   * and none if there is no such thing.
   *
   * Rejects with an `RlxError`: `usage` (a model that knows no words, nothing is said, more words than the model reads,
   * a box that is empty or not in the image), else as `masks`.
   */
  async find(prompt: FindPrompt, { threshold = 0.5, signal }: FindOptions = {}): Promise<FoundThing[]> {
    this.#check();
    const { text, boxes } = questionOf(prompt);
    if (!(typeof threshold === 'number' && threshold >= 0 && threshold <= 1)) throw usage(`threshold is ${String(threshold)}, it must be a number from 0 to 1`, 'threshold');
    const { width, height } = this;
    return this.#live.call(signal, async (wasm) => {
      wasm.findThings(this.#seen, text, boxes, threshold);
      const things = JSON.parse(await wasm.things()) as WasmThing[];
      return things.map(({ score, box }, i) => new FoundThing(score, width, height, wasm.mask(i), box));
    });
  }

  #check(): void {
    this.#live.check();
    if (this.#over) throw new RlxError('disposed', 'the image was disposed', { hint: 'look at it again' });
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
  const box = prompt.box === undefined ? [] : fourOf(prompt.box, 'box');
  if (!Array.isArray(points)) throw usage('points is no array', 'points', 'give [{ x, y, label }, …]');
  const numbers = points.flatMap((point: Partial<Record<'x' | 'y' | 'label', unknown>> | null, i) => {
    const { x, y, label = 1 } = point ?? {};
    if (!Number.isFinite(x) || !Number.isFinite(y)) throw usage(`points[${i}] has x ${String(x)} and y ${String(y)}, they must be numbers`, `points[${i}]`);
    checkLabel(label, `points[${i}]`, '1: of the thing, 0: beside it');
    return [x as number, y as number, label];
  });
  return { points: Float64Array.from(numbers), frame: Float64Array.from(box) };
}

/** A question as the module takes it. */
function questionOf(prompt: FindPrompt): { text: string | undefined; boxes: Float64Array } {
  if (typeof prompt !== 'object' || prompt === null) throw usage('find takes an object with a text or boxes', 'prompt');
  for (const key of Object.keys(prompt)) {
    if (key !== 'text' && key !== 'boxes') throw usage(`${key} is not part of a question`, key, 'give text, boxes or both');
  }
  const { text, boxes = [] } = prompt;
  if (text !== undefined && typeof text !== 'string') throw usage('text is no text', 'text');
  if (!Array.isArray(boxes)) throw usage('boxes is no array', 'boxes', 'give [{ box, label }, …]');
  const numbers = boxes.flatMap((given: Partial<Record<'box' | 'label', unknown>> | null, i) => {
    const { box, label = 1 } = given ?? {};
    checkLabel(label, `boxes[${i}]`, '1: around such a thing, 0: around another');
    return [...fourOf(box, `boxes[${i}]`), label];
  });
  return { text, boxes: Float64Array.from(numbers) };
}

function fourOf(box: unknown, at: string): number[] {
  const four = Array.isArray(box) && box.length === 4 && box.every(Number.isFinite);
  if (!four) throw usage(`${at} is ${String(box)}, it must be four numbers`, at, 'give [left, top, right, bottom]');
  return box as number[];
}

function checkLabel(label: unknown, at: string, hint: string): asserts label is 0 | 1 {
  if (label !== 0 && label !== 1) throw usage(`${at} has label ${String(label)}, it must be 0 or 1`, at, hint);
}
