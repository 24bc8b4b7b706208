/** The model that hears: which, and where it stands. */

import { signal } from '@preact/signals';
import { RlxError, Transcriber } from 'rlx-wasm';
import type { LoadProgress, SessionInfo } from 'rlx-wasm';
import { device, failureOf } from '../state/engine.js';
import type { Failure, Source } from '../state/engine.js';
import { say } from '../state/news.js';

/** The one that is offered: nothing is asked of the Hub before somebody presses its button. */
export const OFFERED = {
  source: { name: 'wav2vec2-base-960h', model: 'hf:facebook/wav2vec2-base-960h' } satisfies Source,
  bytes: 378e6,
  license: 'Apache 2.0',
};

/** Text of a microphone comes every four seconds: two thirds of a piece. */
const PIECE_SECONDS = 6;

export interface Listener {
  source: Source;
  transcriber: Transcriber;
  info: SessionInfo;
}

export const listener = signal<Listener | undefined>(undefined);
/** The model that is being loaded. */
export const fetching = signal<{ source: Source; progress: LoadProgress | undefined } | undefined>(undefined);
export const modelFailure = signal<Failure | undefined>(undefined);

let abort: AbortController | undefined;

/** Loads a model in place of the present one, which stays if that fails. */
export async function loadListener(source: Source): Promise<void> {
  abort?.abort();
  const own = (abort = new AbortController());
  modelFailure.value = undefined;
  fetching.value = { source, progress: undefined };
  try {
    const transcriber = await Transcriber.load({
      model: source.model,
      device,
      pieceSeconds: PIECE_SECONDS,
      signal: own.signal,
      onProgress: (progress) => abort === own && (fetching.value = { source, progress }),
      onNotice: ({ message }) => say(message),
    });
    if (own.signal.aborted) return transcriber.dispose(); // stopped, or another one was chosen
    listener.value?.transcriber.dispose();
    listener.value = { source, transcriber, info: transcriber.info() };
  } catch (error) {
    if (own.signal.aborted) return;
    modelFailure.value = { ...modelFailureOf(error), again: () => void loadListener(source) };
  }
  fetching.value = undefined;
}

/** Ends the load. What has come is kept where the browser stores models. */
export function stopLoading(): void {
  abort?.abort();
  fetching.value = undefined;
}

/** The model cannot go on: it is given up, and may be loaded again. */
export function lose(error: unknown): void {
  const lost = listener.value;
  if (!lost) return;
  lost.transcriber.dispose();
  listener.value = undefined;
  modelFailure.value = { ...modelFailureOf(error), again: () => void loadListener(lost.source) };
}

function modelFailureOf(error: unknown): Failure {
  const failure = failureOf(error);
  const wrong = error instanceof RlxError && error.code === 'unsupported';
  return wrong ? { ...failure, hint: 'Choose a wav2vec 2.0 that was trained to write letters.' } : failure;
}
