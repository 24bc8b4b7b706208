/** The thread of the model that finds things. */

import { Segmenter } from 'rlx-wasm';
import type { MaskPrompt, SeenImage } from 'rlx-wasm';
import { modelOf, serve, whereOf } from '../state/thread_serve.js';
import type { Telling } from '../state/thread_serve.js';
import type { LoadAsk, Where } from '../state/thread_types.js';
import type { CutAsk, Found, Looked } from './protocol.js';

let segmenter: Segmenter | undefined;
let seen: SeenImage | undefined;

serve<CutAsk>(
  (ask, telling) => {
    if ('load' in ask) return load(ask, telling);
    return 'look' in ask ? look(ask.look) : find(ask.prompt);
  },
  (result) => ('mask' in result ? [(result as Found).mask] : []),
);

async function load(ask: LoadAsk, telling: Telling): Promise<Where> {
  segmenter = await Segmenter.load({ model: modelOf(ask), device: ask.load.device, ...telling });
  return whereOf(segmenter.info());
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
  const [mask] = await seen!.masks(prompt);
  const milliseconds = performance.now() - begun;
  const { score, covered } = mask!;
  const part = covered.reduce((sum, of) => sum + of, 0) / covered.length;
  return { mask: await mask!.toImageBitmap(), score, part, milliseconds };
}
