/** The photo, what is shown of the thing in it, and what the model found. Only functions of this module change its signals. */

import { effect, signal } from '@preact/signals';
import { RlxError } from 'rlx-wasm';
import type { MaskPoint } from 'rlx-wasm';
import { failureOf } from '../state/engine.js';
import type { Failure } from '../state/engine.js';
import { say } from '../state/news.js';
import { model, slot } from './model.js';
import type { Model } from './model.js';
import type { Found } from './protocol.js';

export interface Photo {
  name: string;
  bitmap: ImageBitmap;
}

export type Box = [left: number, top: number, right: number, bottom: number];

/** What is shown of the thing, in the order in which it was. */
export interface Shown {
  points: readonly Required<MaskPoint>[];
  box: Box | undefined;
  /** Words for what is to be found, of a model that knows words. */
  words: string;
}

const NOTHING: Shown = { points: [], box: undefined, words: '' };
/** Larger photos are made smaller: a mask has as many pixels as its photo. */
const MOST_PIXELS = 16e6;

export const photo = signal<Photo | undefined>(undefined);
/** Whether a photo is being read from its file. */
export const opening = signal(false);
export const photoFailure = signal<Failure | undefined>(undefined);
/** How long the model looked at the photo; `undefined` while it has not. */
export const looked = signal<number | undefined>(undefined);
export const looking = signal(false);
export const shown = signal<Shown>(NOTHING);
export const found = signal<Found | undefined>(undefined);
export const finding = signal(false);
/** What was shown before each step. */
const before = signal<readonly Shown[]>([]);

let choice = 0;

/** Takes a file as the photo. */
export async function open(file: Blob, name: string): Promise<void> {
  const mine = ++choice;
  opening.value = true;
  photoFailure.value = undefined;
  try {
    const bitmap = await bounded(await createImageBitmap(file));
    if (mine !== choice) return bitmap.close();
    photo.value?.bitmap.close();
    clear();
    before.value = [];
    looked.value = undefined;
    photo.value = { name, bitmap };
  } catch {
    if (mine !== choice) return;
    photoFailure.value = { what: `${name} could not be read as an image.`, hint: 'Choose a PNG, a JPEG or a WebP.' };
  }
  opening.value = false;
}

async function bounded(bitmap: ImageBitmap): Promise<ImageBitmap> {
  const scale = Math.sqrt(MOST_PIXELS / (bitmap.width * bitmap.height));
  if (scale >= 1) return bitmap;
  const [resizeWidth, resizeHeight] = [bitmap.width, bitmap.height].map((n) => Math.max(1, Math.floor(n * scale)));
  const smaller = await createImageBitmap(bitmap, {
    resizeWidth: resizeWidth!,
    resizeHeight: resizeHeight!,
    resizeQuality: 'high',
  });
  bitmap.close();
  return smaller;
}

/** Shows one more place, of the thing or beside it. */
export function showPoint(x: number, y: number, label: 0 | 1): void {
  if (model.value?.knowsWords) {
    say('This model finds things by words: write what to find, or drag a box around one such thing.');
    return;
  }
  change({ ...shown.value, points: [...shown.value.points, { x, y, label }] });
}

/** Says what is to be found. */
export function showWords(words: string): void {
  change({ ...shown.value, words: words.trim() });
}

/** Shows a box around the thing, in place of the one before. */
export function showBox(box: Box): void {
  change({ ...shown.value, box });
}

function change(next: Shown): void {
  photoFailure.value = undefined;
  before.value = [...before.value, shown.value];
  shown.value = next;
}

/** Takes the last step back. */
export function undo(): void {
  const last = before.value.at(-1);
  if (!last) return;
  before.value = before.value.slice(0, -1);
  shown.value = last;
}

export const canUndo = (): boolean => before.value.length > 0;

/** Shows nothing: another thing can be cut out. */
export function clear(): void {
  if (shown.value !== NOTHING) change(NOTHING);
}

/** The model looks at the photo whenever there is another model or another photo. */
let task: { model: Model; photo: Photo } | undefined;
effect(() => {
  const now = model.value && photo.value && { model: model.value, photo: photo.value };
  if (now?.model === task?.model && now?.photo === task?.photo) return;
  if (now && task && now.model.knowsWords !== task.model.knowsWords) {
    // What was shown to the other is no prompt for this one.
    shown.value = NOTHING;
    before.value = [];
  }
  task = now;
  looked.value = undefined;
  looking.value = now !== undefined;
  if (now) void look(now);
});

async function look(mine: NonNullable<typeof task>): Promise<void> {
  try {
    const copy = await createImageBitmap(mine.photo.bitmap);
    const { milliseconds } = await mine.model.cutter.look(copy);
    if (task !== mine) return;
    looked.value = milliseconds;
  } catch (error) {
    if (task !== mine) return;
    give(mine.model, error);
  }
  looking.value = false;
}

/** One prompt is asked at a time; when it is answered, the newest follows. */
let busy = false;
effect(() => {
  if (shown.value === NOTHING) drop();
  else if (looked.value !== undefined && task && !busy) void find(task);
});

async function find(mine: NonNullable<typeof task>): Promise<void> {
  const asks = () => task === mine && shown.peek() !== NOTHING;
  busy = finding.value = true;
  try {
    for (let asked: Shown | undefined; asks() && shown.peek() !== asked;) {
      asked = shown.peek();
      const answer = await ask(mine.model, asked);
      if (asks()) {
        drop();
        found.value = answer;
      } else answer.mask.close();
    }
  } catch (error) {
    if (task === mine) give(mine.model, error);
  }
  busy = finding.value = false;
  // Another model may have looked in the meantime.
  if (task && task !== mine && looked.peek() !== undefined && shown.peek() !== NOTHING) void find(task);
}

const ask = ({ cutter, knowsWords }: Model, { points, box, words }: Shown): Promise<Found> =>
  knowsWords
    ? cutter.findAll({ ...(words && { text: words }), ...(box && { boxes: [{ box }] }) })
    : cutter.find({ points, ...(box && { box }) });

function drop(): void {
  found.peek()?.mask.close();
  found.value = undefined;
}

/** What is wrong with the photo is said of it. Otherwise the thread may have lost its device or its memory: it goes. */
function give(lost: Model, error: unknown): void {
  if (error instanceof RlxError && ['bad_file', 'usage'].includes(error.code)) photoFailure.value = failureOf(error);
  else slot.lose(error, lost);
}
