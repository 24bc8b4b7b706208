/** What is heard, and what was said in it. Only functions of this module change its signals. */

import { effect, signal } from '@preact/signals';
import { RlxError } from 'rlx-wasm';
import type { Listening } from 'rlx-wasm';
import { failureOf } from '../state/engine.js';
import type { Failure } from '../state/engine.js';
import { listener, slot } from './model.js';

/** A sound that is being heard. */
export interface Sound {
  /** The file's name; nothing for the microphone. */
  file?: string;
  /** Seconds that were heard, and of how many where that is known. */
  seconds: number;
  total?: number;
  /** It was stopped: the rest of what came is heard. */
  ending?: boolean;
}

/** What was heard, and in how many milliseconds. */
export interface Heard {
  file?: string;
  seconds: number;
  ms: number;
}

export const sound = signal<Sound | undefined>(undefined);
export const text = signal('');
/** The last sound that was heard to its end. */
export const heard = signal<Heard | undefined>(undefined);
export const failure = signal<Failure | undefined>(undefined);

let abort: AbortController | undefined;
let listening: Listening | undefined;

/** What to do where the browser gives no microphone. */
const REFUSED: { [name: string]: string } = {
  NotAllowedError: 'Allow this page to use the microphone, in the bar of the address or the settings of the browser.',
  NotFoundError: 'Connect a microphone, or open a file.',
  NotReadableError: 'Another program may have the microphone: close it, or open a file.',
};

/** Hears the microphone until it is stopped. */
export function hearMicrophone(): Promise<void> {
  return hear({ seconds: 0 }, async (signal) => {
    const { transcriber } = listener.value!;
    const stream = await microphone();
    try {
      if (signal.aborted) return;
      listening = transcriber.listen(stream, { signal });
      for await (const piece of listening) came(piece.text, { seconds: piece.seconds });
    } finally {
      listening = undefined;
      for (const track of stream.getTracks()) track.stop();
    }
  });
}

async function microphone(): Promise<MediaStream> {
  const { mediaDevices } = navigator as Partial<Navigator>;
  if (!mediaDevices) throw new Failed('This page may not use a microphone', 'Open it by https, or open a file.');
  try {
    return await mediaDevices.getUserMedia({ audio: true });
  } catch (error) {
    const name = error instanceof Error ? error.name : '';
    throw new Failed('The browser gave no microphone', REFUSED[name] ?? 'Try again, or open a file.');
  }
}

/** Something that the visitor can put right, and the model has no part in. */
class Failed extends Error {
  constructor(
    what: string,
    readonly hint: string,
  ) {
    super(what);
  }
}

/** Hears a file. */
export function hearFile(file: File): Promise<void> {
  return hear({ file: file.name, seconds: 0 }, async (signal) => {
    const { transcriber } = listener.value!;
    await transcriber.transcribe(file, {
      signal,
      onText: (more) => came(more, {}),
      onProgress: (progress) => came('', progress),
    });
  });
}

function came(more: string, progress: Partial<Sound>): void {
  if (!sound.value) return;
  text.value += more;
  sound.value = { ...sound.value, ...progress };
}

async function hear(first: Sound, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  abort?.abort();
  const own = (abort = new AbortController());
  const began = performance.now();
  failure.value = undefined;
  heard.value = undefined;
  text.value = '';
  sound.value = first;
  try {
    await work(own.signal);
    if (own.signal.aborted) return; // another sound is heard by now, or none
    const { file, seconds } = sound.value;
    heard.value = { seconds, ms: performance.now() - began, ...(file !== undefined && { file }) };
  } catch (error) {
    if (own.signal.aborted) return;
    if (error instanceof RlxError && ['device_lost', 'out_of_memory', 'internal', 'disposed'].includes(error.code))
      slot.lose(error);
    else failure.value = error instanceof Failed ? { what: error.message, hint: error.hint } : failureOf(error);
  }
  sound.value = undefined;
}

/** Ends what is heard. Of the microphone the rest is heard first; stopping again leaves it out. */
export function stop(): void {
  if (listening && !sound.value?.ending) {
    listening.stop();
    came('', { ending: true });
    return;
  }
  abort?.abort();
  sound.value = undefined;
}

/** The view is left: nobody sees that a microphone is heard, so it ends. Files go on. */
export function leave(): void {
  if (!sound.value || sound.value.file !== undefined) return;
  abort?.abort();
  sound.value = undefined;
}

// Another model, or none: what the one before was hearing is over.
effect(() => {
  void listener.value;
  abort?.abort();
  sound.value = undefined;
});
