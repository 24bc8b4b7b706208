/**
 * The model that the page talks to: one engine at a time, what is being loaded, and what went wrong.
 *
 * All of the page reads the signals of this module; only its functions change them. A working model is given up only
 * once the header of the next one was read and found good, and comes back where the rest of the next one is not.
 */

import { computed, signal } from '@preact/signals';
import { Engine, RlxError } from 'rlx-wasm';
import type { DeviceChoice, LoadOptions, LoadProgress } from 'rlx-wasm';
import { say } from './news.js';
import type { Settings } from './types.js';

/** A model that can be loaded: what people call it, and where it is. */
export interface Source {
  name: string;
  model: LoadOptions['model'];
  /** Questions it can answer, for who does not know what to ask. */
  questions?: readonly string[];
  /** What the page asks of it where the conversation says nothing else. */
  settings?: Settings;
}

/** A load that runs, or is paused. */
export interface Loading {
  source: Source;
  /** `checking`: the present model still works. */
  state: 'checking' | 'loading' | 'paused';
  progress: LoadProgress | undefined;
  /** The files of which something has come. */
  files: ReadonlyMap<string, { loadedBytes: number; totalBytes?: number }>;
}

/** What went wrong, what to do about it, and what can be tried again. */
export interface Failure {
  what: string;
  hint: string;
  again?: () => void;
}

export interface Loaded {
  engine: Engine;
  source: Source;
}

export const loaded = signal<Loaded | undefined>(undefined);
export const loading = signal<Loading | undefined>(undefined);
export const failure = signal<Failure | undefined>(undefined);
/** A lost device is requested again: calls wait. */
export const recovering = signal(false);
/** The model is put aside while something else needs its memory. */
export const away = signal(false);
export const ready = computed(() => loaded.value !== undefined && !recovering.value);
/** Whether the model can be given functions to call. */
export const takesFunctions = computed(() => Boolean(loaded.value?.engine.info().model.tools));
/** Where models run: `?device=webgpu` or `cpu` in the address. */
export const device = (new URLSearchParams(globalThis.location?.search).get('device') ?? 'auto') as DeviceChoice;

/** Aborted with the load that runs. */
let abort: AbortController | undefined;
/** The model that was given up for the one that is being loaded. */
let previous: Source | undefined;

/** What to do, where the package's own hint speaks to programmers. */
const HINTS: { [code: string]: string } = {
  out_of_memory: 'Choose a smaller model, or close other tabs and try again.',
  device_lost: 'Load the model again.',
  disposed: 'Load the model again.',
  internal: 'Load the model again. If it happens again, please report it.',
  context_full: 'Begin a new chat, or ask something shorter.',
};

/** Parts that most visitors do not need are fetched when they are first used, and kept from then on. */
const ONCE = 'This part of the page needs the network once. Connect, and load the page again.';

export function failureOf(error: unknown): Failure {
  if (!(error instanceof RlxError))
    return { what: error instanceof Error ? error.message : String(error), hint: 'Load the page again.' };
  const own = error.code === 'io' && error.at.endsWith('.wasm');
  return { what: error.what + (error.at && ` (${error.at})`), hint: own ? ONCE : (HINTS[error.code] ?? error.hint) };
}

/** Loads a model in place of the present one. */
export async function load(source: Source): Promise<void> {
  abort?.abort();
  const own = (abort = new AbortController());
  failure.value = undefined;
  const start = (state: Loading['state']) => (loading.value = { source, state, progress: undefined, files: new Map() });
  try {
    if (loaded.value) {
      start('checking');
      const { refusal } = await Engine.estimate({ model: source.model, device, signal: own.signal });
      if (refusal) throw refusal;
      if (own.signal.aborted) return;
      previous = loaded.value.source;
      loaded.value.engine.dispose();
      loaded.value = undefined;
    }
    start('loading');
    const engine = await Engine.load({
      model: source.model,
      device,
      signal: own.signal,
      onProgress: (progress) => abort === own && advance(progress),
      onNotice: ({ message }) => say(message),
      onLost: ({ code }) => void recover(engine, code === 'device_lost'),
    });
    if (own.signal.aborted) return engine.dispose(); // another model was chosen
    loaded.value = { engine, source };
    previous = undefined;
  } catch (error) {
    if (own.signal.aborted) return;
    await giveUp(source, error);
  }
  if (abort === own) loading.value = undefined;
}

/** Says what went wrong with a load, and loads the model again that was there before it. */
async function giveUp(source: Source, error: unknown): Promise<void> {
  const failed: Failure = { ...failureOf(error), again: () => void load(source) };
  const before = previous;
  previous = undefined;
  if (before) {
    say(`“${source.name}” could not be loaded, so ${before.name} is loaded again.`);
    await load(before);
  }
  failure.value ??= failed;
}

function advance(progress: LoadProgress): void {
  if (!loading.value) return;
  const { file } = progress;
  const files = file ? new Map(loading.value.files).set(file.name, file) : loading.value.files;
  loading.value = { ...loading.value, progress, files };
}

/** Stops the load. What has come is kept, and `resume` goes on from there. */
export function pause(): void {
  if (!loading.value) return;
  abort?.abort();
  loading.value = { ...loading.value, state: 'paused' };
}

export function resume(): void {
  if (loading.value) void load(loading.value.source);
}

/** Ends the load, and loads the model again that was there before it. */
export function cancel(): void {
  abort?.abort();
  loading.value = undefined;
  const before = previous;
  previous = undefined;
  if (before) void load(before);
}

/** Frees the model's memory while something else needs it, and loads the model again. */
export async function aside(work: () => Promise<void>): Promise<void> {
  const before = loaded.value;
  before?.engine.dispose();
  loaded.value = undefined;
  away.value = true;
  try {
    await work();
  } finally {
    away.value = false;
    if (before && !loaded.value && !loading.value) await load(before.source);
  }
}

/** Loads a model whose device was lost, or whose module or worker stopped, on a new device; anew where that fails. */
async function recover(engine: Engine, device: boolean): Promise<void> {
  if (loaded.value?.engine !== engine || recovering.value) return;
  const { source } = loaded.value;
  recovering.value = true;
  say(`${device ? 'The GPU was lost' : 'The model stopped'}, and it is loaded again. What was said is still here.`);
  const back = await engine.reload().then(
    () => true,
    () => false,
  );
  recovering.value = false;
  if (back || loaded.value?.engine !== engine) return;
  engine.dispose();
  loaded.value = undefined;
  await load(source);
}
