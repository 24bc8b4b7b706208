/** The picture that is drawn, and what of. Only functions of this module change its signals but those of the form. */

import { effect, signal } from '@preact/signals';
import { RlxError } from 'rlx-wasm';
import type { LoadProgress, PipelineModel } from 'rlx-wasm';
import { failureOf } from '../state/engine.js';
import type { Failure } from '../state/engine.js';
import { model, slot } from './model.js';
import type { Drawn, DrawTold, Order } from './protocol.js';

/** A picture that is there. */
export interface Picture extends Drawn {
  order: Order;
  steps: number;
}

/** A picture on its way. */
export interface Drawing {
  order: Order;
  /** A model that is put on the device for it. */
  loading?: { model: PipelineModel; progress: LoadProgress };
  /** Steps that are done; nothing before the first load or step was heard of. */
  step?: number;
  steps?: number;
}

/** What the form says; an empty text is left to the pipeline or to chance. */
export const form = {
  prompt: signal(''),
  width: signal('512'),
  height: signal('512'),
  steps: signal(''),
  seed: signal(''),
  preview: signal(false),
};

export const drawing = signal<Drawing | undefined>(undefined);
export const picture = signal<Picture | undefined>(undefined);
/** The picture so far, where previews are wanted. */
export const preview = signal<ImageBitmap | undefined>(undefined);
export const failure = signal<Failure | undefined>(undefined);

/** A seed by chance; of six digits, so that it can be told and written again. */
const anySeed = (): number => Math.floor(Math.random() * 1e6);

/** Draws what the form says. */
export async function draw(): Promise<void> {
  const by = model.value;
  const prompt = form.prompt.value.trim();
  if (!by || prompt === '' || drawing.value) return;
  const steps = form.steps.value === '' ? by.usualSteps : Number(form.steps.value);
  const order: Order = {
    prompt,
    width: Number(form.width.value),
    height: Number(form.height.value),
    steps,
    seed: form.seed.value === '' ? anySeed() : Number(form.seed.value),
    preview: form.preview.value,
  };
  const mine: Drawing = { order };
  failure.value = undefined;
  drawing.value = mine;
  try {
    const drawn = await by.drawer.draw(order, (told) => hear(told, order));
    if (drawing.value?.order !== order) return drawn.bitmap.close();
    show(undefined);
    picture.value?.bitmap.close();
    picture.value = { ...drawn, order, steps };
  } catch (error) {
    if (drawing.value?.order !== order) return; // stopped, or the model is gone
    show(undefined);
    const { code } = error instanceof RlxError ? error : { code: 'internal' };
    // What is wrong with the wish is said of it. Otherwise the thread may have lost its device or its memory: it goes.
    if (code === 'usage') failure.value = failureOf(error);
    else slot.lose(error, by);
  }
  drawing.value = undefined;
}

/** Ends the picture that is being drawn. */
export function stop(): void {
  drawing.value = undefined;
  show(undefined);
  void model.value?.drawer.stop().catch(() => {}); // a thread that has ended draws nothing
}

function hear(told: DrawTold, order: Order): void {
  const now = drawing.value;
  if (now?.order !== order) {
    if ('preview' in told) told.preview?.close();
    return;
  }
  if ('loading' in told) {
    const { loading: of, progress } = told;
    drawing.value = { ...now, loading: { model: of, progress } };
    return;
  }
  const { step, steps } = told;
  const { loading: _, ...rest } = now;
  drawing.value = { ...rest, step, steps };
  if (told.preview) show(told.preview);
}

function show(next: ImageBitmap | undefined): void {
  preview.peek()?.close();
  preview.value = next;
}

// Another model, or none: what the one before was drawing is over.
effect(() => {
  void model.value;
  if (drawing.peek()) drawing.value = undefined;
  show(undefined);
});
