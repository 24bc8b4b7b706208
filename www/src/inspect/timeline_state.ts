/** A program's times on this device. Only functions of this module change its signals. */

import { signal } from '@preact/signals';
import type { Trace } from 'rlx-wasm/inspect';
import { failureOf } from '../state/engine.js';
import type { Failure } from '../state/engine.js';
import { opened } from './state.js';

export const timed = signal<Trace | undefined>(undefined);
/** Runs so far while it is timed. */
export const timing = signal<{ done: number; runs: number } | undefined>(undefined);
export const untimed = signal<Failure | undefined>(undefined);

let abort: AbortController | undefined;

/** Times a program behind so many positions. */
export async function timeStep(program: string, past: number): Promise<void> {
  if (timing.value || !opened.value) return;
  const own = (abort = new AbortController());
  untimed.value = undefined;
  timing.value = { done: 0, runs: 0 };
  try {
    const trace = await opened.value.inspection.trace(program, {
      past,
      signal: own.signal,
      onProgress: (progress) => {
        if (!own.signal.aborted) timing.value = progress;
      },
    });
    if (!own.signal.aborted) timed.value = trace;
  } catch (error) {
    if (!own.signal.aborted) untimed.value = failureOf(error);
  }
  timing.value = undefined;
}

export function stopTiming(): void {
  abort?.abort();
}

/** Forgets what was timed: another program is shown. */
export function forgetTimes(): void {
  stopTiming();
  timed.value = undefined;
  untimed.value = undefined;
}
