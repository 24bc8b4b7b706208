/** The model that finds things: which, and where it stands. */

import { signal } from '@preact/signals';
import { RlxError } from 'rlx-wasm';
import type { LoadProgress } from 'rlx-wasm';
import { device, failureOf } from '../state/engine.js';
import type { Failure, Source } from '../state/engine.js';
import { say } from '../state/news.js';
import type { Where } from '../state/thread_types.js';
import { Cutter } from './cutter.js';

/** The one that is offered: nothing is asked of the Hub before somebody presses its button. */
export const OFFERED = {
  source: { name: 'Segment Anything, base', model: 'hf:facebook/sam-vit-base' } satisfies Source,
  bytes: 375e6,
  license: 'Apache 2.0',
};

export interface Model extends Where {
  source: Source;
  cutter: Cutter;
}

export const model = signal<Model | undefined>(undefined);
/** The model that is being loaded. */
export const fetching = signal<{ source: Source; progress: LoadProgress | undefined } | undefined>(undefined);
export const modelFailure = signal<Failure | undefined>(undefined);

let next: Cutter | undefined;

/** Loads a model in place of the present one, which stays if that fails. */
export async function loadModel(source: Source): Promise<void> {
  next?.dispose();
  const cutter = (next = new Cutter());
  modelFailure.value = undefined;
  fetching.value = { source, progress: undefined };
  try {
    const where = await cutter.load(source, device, {
      onProgress: (progress) => next === cutter && (fetching.value = { source, progress }),
      onNotice: say,
    });
    if (next !== cutter) return;
    model.value?.cutter.dispose();
    model.value = { ...where, source, cutter };
  } catch (error) {
    cutter.dispose();
    if (next !== cutter) return; // stopped, or another one was chosen
    modelFailure.value = { ...modelFailureOf(error), again: () => void loadModel(source) };
  }
  next = undefined;
  fetching.value = undefined;
}

/** Ends the load. What has come is kept where the browser stores models. */
export function stopLoading(): void {
  next?.dispose();
  next = undefined;
  fetching.value = undefined;
}

/** The model cannot go on: it is given up, and may be loaded again. */
export function lose(lost: Model, error: unknown): void {
  lost.cutter.dispose();
  if (model.value !== lost) return;
  model.value = undefined;
  modelFailure.value = { ...failureOf(error), again: () => void loadModel(lost.source) };
}

function modelFailureOf(error: unknown): Failure {
  const failure = failureOf(error);
  const wrong = error instanceof RlxError && error.code === 'unsupported';
  return wrong ? { ...failure, hint: 'Choose a model that finds things in images: a SAM.' } : failure;
}
