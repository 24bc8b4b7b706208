/** The benchmark that runs, and the last one's result. Only functions of this module change its signals. */

import { signal } from '@preact/signals';
import { aside, failureOf, loaded } from '../state/engine.js';
import type { Failure } from '../state/engine.js';
import { measure } from './measure.js';
import type { Told } from './measure.js';
import type { Benchmark } from './types.js';

export const running = signal<Told | undefined>(undefined);
export const result = signal<Benchmark | undefined>(undefined);
export const failed = signal<Failure | undefined>(undefined);
/** Whether it was ended before it was done. */
export const stopped = signal(false);
/** Whether other engines are measured too. */
export const peers = signal(false);

let abort: AbortController | undefined;

/** Measures the page's model, which is put aside for that time. */
export async function start(): Promise<void> {
  const source = loaded.value?.source;
  if (!source || running.value) return;
  const own = (abort = new AbortController());
  const tell = (told: Told) => !own.signal.aborted && (running.value = told);
  failed.value = undefined;
  stopped.value = false;
  tell({ done: 0, what: 'Starting' });
  await aside(async () => {
    try {
      result.value = await measure(source, { peers: peers.value, signal: own.signal, tell });
    } catch (error) {
      if (own.signal.aborted) stopped.value = true;
      else failed.value = failureOf(error);
    }
    running.value = undefined;
  });
}

export function stop(): void {
  abort?.abort();
}
