/**
 * The model that the page talks to: one engine at a time, what is being loaded, and what went wrong.
 *
 * All of the page reads the signals of this module; only its functions change them.
 */

import { signal } from '@preact/signals';
import { Engine, RlxError } from 'rlx-wasm';
import type { DeviceChoice, LoadOptions, LoadProgress, Notice } from 'rlx-wasm';

/** A model that can be loaded: what people call it, and where it is. */
export interface Source {
  name: string;
  model: LoadOptions['model'];
}

/** A load that runs, or is paused. */
export interface Loading {
  source: Source;
  progress: LoadProgress | undefined;
  paused: boolean;
}

/** What went wrong, and what to do about it. */
export interface Failure {
  what: string;
  hint: string;
  code: string;
}

/** The loaded model and its engine. */
export const loaded = signal<{ engine: Engine; source: Source } | undefined>(undefined);
export const loading = signal<Loading | undefined>(undefined);
export const failure = signal<Failure | undefined>(undefined);
/** News of the last load: offline, no room to keep a model. */
export const notices = signal<readonly Notice[]>([]);
/** Where models run: `?device=webgpu` or `cpu` in the address. */
export const device = (new URLSearchParams(location.search).get('device') ?? 'auto') as DeviceChoice;

let abort: AbortController | undefined;

export function failureOf(error: unknown): Failure {
  if (!(error instanceof RlxError)) return { what: String(error), hint: '', code: 'internal' };
  return { what: error.what + (error.at && ` (${error.at})`), hint: error.hint ?? '', code: error.code };
}

/** Loads a model in place of the present one. */
export async function load(source: Source): Promise<void> {
  abort?.abort();
  const own = (abort = new AbortController());
  loaded.value?.engine.dispose();
  loaded.value = undefined;
  failure.value = undefined;
  notices.value = [];
  loading.value = { source, progress: undefined, paused: false };
  try {
    const engine = await Engine.load({
      model: source.model,
      device,
      signal: own.signal,
      onProgress: (progress) => {
        if (abort === own) loading.value = { source, progress, paused: false };
      },
      onNotice: (notice) => (notices.value = [...notices.value, notice]),
    });
    if (own.signal.aborted) return engine.dispose(); // another model was chosen
    loaded.value = { engine, source };
  } catch (error) {
    if (own.signal.aborted) return;
    failure.value = failureOf(error);
  }
  if (abort === own) loading.value = undefined;
}
