/** The thread of the model that finds things. */

import { Segmenter } from 'rlx-wasm';
import type { FindPrompt, Mask, MaskPrompt, SeenImage } from 'rlx-wasm';
import { modelOf, serve, whereOf } from '../state/thread_serve.js';
import type { Telling } from '../state/thread_serve.js';
import type { LoadAsk } from '../state/thread_types.js';
import type { CutAsk, CutterInfo, Found, Looked } from './protocol.js';

let segmenter: Segmenter | undefined;
let seen: SeenImage | undefined;

serve<CutAsk>(
  (ask, telling) => {
    if ('load' in ask) return load(ask, telling);
    if ('look' in ask) return look(ask.look);
    return 'prompt' in ask ? find(ask.prompt) : findAll(ask.question);
  },
  (result) => ('mask' in result ? [(result as Found).mask] : []),
);

async function load(ask: LoadAsk, telling: Telling): Promise<CutterInfo> {
  segmenter = await Segmenter.load({ model: modelOf(ask), device: ask.load.device, ...telling });
  return { ...whereOf(segmenter.info()), knowsWords: segmenter.knowsWords };
}

async function look(photo: ImageBitmap): Promise<Looked> {
  seen?.dispose(); // its memory is free before more is asked for
  seen = undefined;
  const begun = performance.now();
  try {
    seen = await segmenter!.look(photo);
  } finally {
    photo.close();
  }
  return { milliseconds: performance.now() - begun };
}

async function find(prompt: MaskPrompt): Promise<Found> {
  const begun = performance.now();
  return foundOf(await seen!.masks(prompt), begun);
}

async function findAll(question: FindPrompt): Promise<Found> {
  const begun = performance.now();
  return foundOf(await seen!.find(question), begun);
}

/** All of these things, the surest first, as one. */
async function foundOf(masks: readonly Mask[], begun: number): Promise<Found> {
  const milliseconds = performance.now() - begun;
  const { width, height } = seen!;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d')!;
  const all = new Uint8Array(width * height);
  for (const mask of masks) {
    mask.covered.forEach((of, i) => (all[i]! |= of));
    const bitmap = await mask.toImageBitmap();
    context.drawImage(bitmap, 0, 0);
    bitmap.close();
  }
  const part = all.reduce((sum, of) => sum + of, 0) / all.length;
  return { mask: canvas.transferToImageBitmap(), score: masks[0]?.score ?? 0, count: masks.length, part, milliseconds };
}
