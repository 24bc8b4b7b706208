/** The model that reads for the search: which, and where it stands. */

import { signal } from '@preact/signals';
import { RlxError } from 'rlx-wasm';
import type { LoadProgress } from 'rlx-wasm';
import { device, failureOf } from '../state/engine.js';
import type { Failure, Source } from '../state/engine.js';
import { say } from '../state/news.js';
import { Encoder } from './encoder.js';
import type { EncoderInfo } from './protocol.js';
import { hash } from './store.js';

/** The one that is offered: nothing is asked of the Hub before somebody presses its button. */
export const OFFERED = {
  source: { name: 'all-MiniLM-L6-v2', model: 'hf:sentence-transformers/all-MiniLM-L6-v2' } satisfies Source,
  bytes: 91e6,
  license: 'Apache 2.0',
};

export interface Reader extends EncoderInfo {
  source: Source;
  encoder: Encoder;
  /** Of the vector that it makes of one sentence, so that vectors of another model are not taken for its own. */
  key: string | undefined;
}

export const reader = signal<Reader | undefined>(undefined);
/** The model that is being loaded. */
export const fetching = signal<{ source: Source; progress: LoadProgress | undefined } | undefined>(undefined);
export const modelFailure = signal<Failure | undefined>(undefined);

let next: Encoder | undefined;

/** Loads a model in place of the present one, which stays if that fails. */
export async function loadReader(source: Source): Promise<void> {
  next?.dispose();
  const encoder = (next = new Encoder());
  modelFailure.value = undefined;
  fetching.value = { source, progress: undefined };
  try {
    const info = await encoder.load(source, device, {
      onProgress: (progress) => next === encoder && (fetching.value = { source, progress }),
      onNotice: say,
    });
    const { vectors } = await encoder.embed(['A quick brown fox jumps over the lazy dog.']);
    const key = await hash(vectors);
    if (next !== encoder) return;
    reader.value?.encoder.dispose();
    reader.value = { ...info, source, encoder, key };
  } catch (error) {
    encoder.dispose();
    if (next !== encoder) return; // stopped, or another one was chosen
    modelFailure.value = { ...modelFailureOf(error), again: () => void loadReader(source) };
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
export function lose(error: unknown): void {
  const lost = reader.value;
  if (!lost) return;
  lost.encoder.dispose();
  reader.value = undefined;
  modelFailure.value = { ...modelFailureOf(error), again: () => void loadReader(lost.source) };
}

function modelFailureOf(error: unknown): Failure {
  const failure = failureOf(error);
  const wrong = error instanceof RlxError && error.code === 'unsupported';
  return wrong
    ? { ...failure, hint: 'Choose an encoder, such as a BERT: a model for chats makes no vectors.' }
    : failure;
}
