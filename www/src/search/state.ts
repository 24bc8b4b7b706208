/** The files that are searched: their texts, passages and vectors. Only functions of this module change its signals. */

import { effect, signal } from '@preact/signals';
import { RlxError } from 'rlx-wasm';
import { failureOf } from '../state/engine.js';
import type { Failure } from '../state/engine.js';
import { isPassedOver, MOST_BYTES, MOST_FILES, MOST_PASSAGES, textOf } from './files.js';
import type { Given, TextFile } from './files.js';
import { reader, slot } from './model.js';
import type { Reader } from './model.js';
import { passagesOf, weigh } from './passages.js';
import type { Passage } from './passages.js';
import { forget, get, hash, keptBytes, keyOf, put } from './store.js';

/** What was chosen. */
export interface Chosen {
  files: readonly TextFile[];
  /** Sentences about files that are not read. */
  refused: readonly string[];
  /** How many files were passed over without a look: hidden ones, packages, and those above the bound. */
  passedOver: number;
}

export interface Indexed extends Passage {
  file: TextFile;
}

/** Passages with vectors: those of the first `done` are there. */
export interface Index {
  passages: readonly Indexed[];
  vectors: Float32Array;
  width: number;
  done: number;
  /** How many of the passages were found in this browser's storage. */
  fromStore: number;
  /** How many are longer than the model reads, so that their ends are not found. */
  truncated: number;
  /** How many files are not searched, because there are too many passages. */
  leftOut: number;
}

export const chosen = signal<Chosen | undefined>(undefined);
/** How many files are being read. */
export const reading = signal(0);
export const index = signal<Index | undefined>(undefined);
/** The indexing that runs: which part is done, by length, and about how many seconds it takes yet. */
export const indexing = signal<{ part: number; seconds: number | undefined } | undefined>(undefined);
export const indexFailure = signal<Failure | undefined>(undefined);
/** Bytes of vectors that this browser keeps. */
export const kept = signal(0);

/** A batch is about so long, in milliseconds: a question waits for one batch at most. */
const BATCH_MS = 250;
const MOST_TEXTS = 64;

let abort: AbortController | undefined;
let choice = 0;

/** Reads files and makes them what is searched. */
export async function choose(given: readonly Given[]): Promise<void> {
  const own = ++choice;
  const wanted = given.filter(({ path }) => !isPassedOver(path));
  const some = wanted.slice(0, MOST_FILES);
  const files: TextFile[] = [];
  const refused: string[] = [];
  reading.value = some.length;
  for (const { path, file } of some) {
    const read = await readText(path, file);
    if (choice !== own) return; // others were chosen
    if (typeof read === 'string') refused.push(`“${path}” ${read}.`);
    else files.push(read);
  }
  reading.value = 0;
  chosen.value = { files, refused, passedOver: given.length - some.length };
}

async function readText(path: string, file: Blob): Promise<TextFile | string> {
  if (file.size > MOST_BYTES) return `has ${(file.size / 1e6).toFixed(1)} MB, and a file may have 1 MB`;
  try {
    return textOf(path, new Uint8Array(await file.arrayBuffer()));
  } catch {
    return 'could not be read: it may have been moved or changed';
  }
}

// Whoever comes second, the files or the model, begins.
effect(() => {
  abort?.abort();
  index.value = undefined;
  indexing.value = undefined;
  indexFailure.value = undefined;
  if (reader.value && chosen.value && chosen.value.files.length > 0) void make(reader.value, chosen.value.files);
});

/** Goes on where indexing was stopped: what was computed for whole files is kept. */
export function goOn(): void {
  if (reader.value && chosen.value) void make(reader.value, chosen.value.files);
}

export function stopIndexing(): void {
  abort?.abort();
  indexing.value = undefined;
}

/** Removes all vectors from this browser's storage. */
export async function forgetAll(): Promise<void> {
  await forget();
  kept.value = await keptBytes();
}

/** A file with its passages, and what is kept of it. */
interface Part {
  file: TextFile;
  passages: Passage[];
  key: string | undefined;
  found: Awaited<ReturnType<typeof get>>;
}

async function make(by: Reader, files: readonly TextFile[]): Promise<void> {
  const own = (abort = new AbortController());
  indexFailure.value = undefined;
  indexing.value = { part: 0, seconds: undefined };
  try {
    const parts = await partsOf(by, files, own.signal);
    if (own.signal.aborted) return;
    await fill(by, parts, files.length - parts.length, own.signal);
  } catch (error) {
    if (own.signal.aborted) return;
    // Where the texts are at fault the model stays; where it cannot go on it is given up.
    if (error instanceof RlxError) slot.lose(error);
    else indexFailure.value = failureOf(error);
  }
  if (abort === own) indexing.value = undefined;
  kept.value = await keptBytes();
}

/** The passages of files up to a bound, with what is kept of them; those of which all is kept come first. */
async function partsOf(by: Reader, files: readonly TextFile[], signal: AbortSignal): Promise<Part[]> {
  // The model adds tokens of its own, and the weight of a text is an estimate.
  const limit = Math.max(8, Math.min(200, Math.floor(by.maxTokens * 0.8)));
  const parts: Part[] = [];
  let count = 0;
  for (const file of files) {
    const passages = passagesOf(file.text, limit, file.kind !== 'text');
    count += passages.length;
    if (count > MOST_PASSAGES) break;
    const length = passages.length * by.width;
    const content = by.key === undefined ? undefined : await hash(`${limit} ${file.kind} ${file.text}`);
    const key = content && keyOf(by.key!, content, 4 * length);
    parts.push({ file, passages, key, found: key === undefined ? undefined : await get(key, length) });
    if (signal.aborted) return parts;
  }
  return [...parts.filter(({ found }) => found), ...parts.filter(({ found }) => !found)];
}

/** Computes the vectors that are not kept, and shows what is there after each batch. */
async function fill(by: Reader, parts: readonly Part[], leftOut: number, signal: AbortSignal): Promise<void> {
  const passages = parts.flatMap(({ file, passages }) => passages.map((passage) => ({ ...passage, file })));
  const vectors = new Float32Array(passages.length * by.width);
  let done = 0;
  let truncated = 0;
  for (const { found, passages } of parts) {
    if (!found) break;
    vectors.set(found.vectors, done * by.width);
    done += passages.length;
    truncated += found.truncated;
  }
  const show = () => (index.value = { passages, vectors, width: by.width, done, fromStore, truncated, leftOut });
  const fromStore = done;
  show();
  const texts = passages.map(({ file, start, end }) => file.text.slice(start, end));
  const pace = new Pace(texts.slice(done));
  for (const { found, passages: own, key } of parts) {
    if (found) continue;
    const first = done;
    let cut = 0;
    while (done < first + own.length) {
      const some = texts.slice(done, Math.min(done + pace.texts, first + own.length));
      const start = performance.now();
      const batch = await by.encoder.embed(some);
      if (signal.aborted) return;
      vectors.set(batch.vectors, done * by.width);
      done += some.length;
      cut += batch.truncated;
      truncated += batch.truncated;
      pace.took(some, performance.now() - start);
      indexing.value = { part: pace.part, seconds: pace.seconds };
      show();
    }
    const vectorsOf = vectors.slice(first * by.width, done * by.width);
    if (key !== undefined) await put(key, { vectors: vectorsOf, truncated: cut });
  }
}

/** How many texts make a batch, which part of all is done, and how long the others take. */
class Pace {
  texts = 1;
  readonly #total: number;
  #done = 0;
  #ms = 0;

  constructor(texts: readonly string[]) {
    this.#total = texts.reduce((sum, text) => sum + weigh(text), 0);
  }

  took(texts: readonly string[], ms: number): void {
    this.#done += texts.reduce((sum, text) => sum + weigh(text), 0);
    this.#ms += ms;
    const each = ms / texts.length;
    this.texts = Math.max(1, Math.min(MOST_TEXTS, 2 * this.texts, Math.floor(BATCH_MS / each)));
  }

  get part(): number {
    return this.#done / this.#total;
  }

  /** Undefined until some seconds say how fast it is. */
  get seconds(): number | undefined {
    return this.#ms < 1500 ? undefined : ((this.#total - this.#done) * this.#ms) / this.#done / 1000;
  }
}
