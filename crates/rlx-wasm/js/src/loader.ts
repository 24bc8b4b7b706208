/**
 * Loads shards to the device: headers first, then every tensor byte to its place.
 *
 * Each shard's header goes to the engine. Its stream then pauses, with the last chunk in hand, until all
 * headers have arrived and the plan exists. The plan's placement table then says where every byte goes:
 * directly to a GPU buffer, without wasm memory, or to the engine.
 */

import { cancelled, RlxError, throwIfAborted, toRlxError } from './error.js';
import type { GpuHost } from './gpu_host.js';
import type { ShardReader } from './shard.js';
import type { LoadProgress } from './types.js';
import { PLACEMENT_COLUMNS, PUT } from './wasm.js';
import type { WasmEngine, WasmLoading } from './wasm.js';

/**
 * Most streams held open at once. A browser opens at most six connections to a server, so a seventh held
 * stream would wait for ever; further streams are closed and reopened.
 */
const HELD_STREAMS = 4;

/**
 * Held streams are closed if no header byte has come for this long. Loads share a server's connections,
 * also across tabs: two loads could each hold some and wait for the other's.
 */
const HOLD_MS = 1000;

export interface LoadContext {
  /** Absent for a session, which has neither a check nor caches. */
  engine: WasmLoading & Partial<Pick<WasmEngine, 'checks' | 'restore'>>;
  host: Pick<GpuHost, 'stream' | 'workDone'> | null;
  /** Its signal is the one the shards were made with; the first error aborts it too. */
  abort: AbortController;
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  /** Tokens of an earlier engine's caches, whose rows are computed again once the model is there. */
  tokens?: Uint32Array | undefined;
  /** In place of opening the model where it is: opens it where it runs best. */
  settle?: (() => Promise<Pick<LoadContext, 'engine' | 'host'>>) | undefined;
}

/** The same promise; rejects once the signal fires. What the engine does is then of no use, and ends when it is freed. */
function unless<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(cancelled());
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/** Loads all shards. They are closed when this settles, even after an error. */
export async function load(shards: readonly ShardReader[], cx: LoadContext): Promise<void> {
  const progress = new Progress(shards, cx.onProgress);
  const signal = cx.abort.signal;
  const waiting = new Waiting();
  try {
    const held: (Uint8Array | null)[] = new Array<null>(shards.length).fill(null);
    await inParallel(shards, cx.abort, async (shard, i) => {
      held[i] = await readHeader(shard, i, cx, () => {
        waiting.goOn();
        progress.report('headers', shard);
      });
      if (i < HELD_STREAMS) {
        waiting.hold(shard);
      } else {
        held[i] = held[i]!.slice(); // the reader's buffer may be much larger
        await shard.pause();
      }
    });
    waiting.over();
    throwIfAborted(signal);
    progress.report('compile');
    if (cx.settle) cx = { ...cx, ...await unlessBad(shards, cx.settle()) };
    else await unless(signal, unlessBad(shards, cx.engine.open()));
    throwIfAborted(signal);
    await inParallel(shards, cx.abort, (shard, i) =>
      readTensors(shard, i, held[i]!, cx, () => progress.report('weights', shard)));
    if (cx.host) await unless(signal, cx.host.workDone());
    if (cx.engine.checks?.()) progress.report('check');
    await unless(signal, cx.engine.finishLoad());
    if (cx.tokens && cx.engine.restore) await unless(signal, cx.engine.restore(cx.tokens));
    throwIfAborted(signal);
    progress.report('ready');
  } finally {
    waiting.over();
    await Promise.all(shards.map((shard) => shard.close()));
  }
}

/** The streams that are held until all headers are in. */
class Waiting {
  #held: ShardReader[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  hold(shard: ShardReader): void {
    this.#held.push(shard);
  }

  /** Notes that bytes of a header have come. */
  goOn(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      for (const shard of this.#held.splice(0)) void shard.pause();
    }, HOLD_MS);
  }

  /** Notes that all headers have arrived, or never will. */
  over(): void {
    clearTimeout(this.#timer);
  }
}

/** Runs `work` on every shard, four at a time. The first error stops the others and is thrown. */
export async function inParallel(
  shards: readonly ShardReader[],
  abort: AbortController,
  work: (shard: ShardReader, i: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  let fault: { error: unknown } | undefined;
  const worker = async () => {
    while (next < shards.length && !fault) {
      const i = next++;
      try {
        await work(shards[i]!, i);
      } catch (error) {
        fault ??= { error };
        abort.abort();
      }
    }
  };
  await Promise.all(Array.from({ length: HELD_STREAMS }, worker));
  if (fault) throw (fault as { error: unknown }).error;
}

/** Pushes chunks until the header is complete; answers the chunk that completed it. */
export async function readHeader(shard: ShardReader, i: number, cx: LoadContext, report: () => void): Promise<Uint8Array> {
  await shard.open();
  for (;;) {
    const chunk = await shard.read();
    if (chunk === null) {
      throw new RlxError('bad_file', `the file ends inside its header, after ${shard.position} bytes`, {
        at: shard.source.name,
        hint: 'the file is incomplete: get it again',
      });
    }
    let done: boolean;
    try {
      done = cx.engine.pushHeader(i, shard.source.name, shard.bytes ?? -1, chunk);
    } catch (error) {
      if (toRlxError(error).code === 'bad_file') shard.discard();
      throw error;
    }
    report();
    if (done) return chunk;
  }
}

/**
 * The same promise. If it says that a model of one file is bad, nothing is kept of what was downloaded: another load
 * could only say the same. Of several files it is not known which is at fault, or whether only the list is.
 */
export async function unlessBad<T>(shards: readonly ShardReader[], opening: Promise<T>): Promise<T> {
  try {
    return await opening;
  } catch (error) {
    const [shard] = shards;
    if (shards.length === 1 && shard!.from !== 'cache' && toRlxError(error).code === 'bad_file') shard!.discard();
    throw error;
  }
}

async function readTensors(
  shard: ShardReader,
  i: number,
  held: Uint8Array,
  cx: LoadContext,
  report: () => void,
): Promise<void> {
  const placer = new Placer(i, cx.engine.placements(i), cx);
  await placer.take(shard.position - held.byteLength, held);
  report();
  // To the very end, beyond the last tensor: the cache keeps whole files.
  for (;;) {
    const offset = shard.position;
    const chunk = await shard.read();
    if (chunk === null) break;
    await placer.take(offset, chunk);
    report();
  }
  placer.finish(shard);
}

/** Sends one shard's bytes where its placement table says. */
export class Placer {
  #row = 0;
  /** Bytes of the current row that have been placed or are in `#carry`. */
  #taken = 0;
  /** Up to three bytes that do not yet fill a word: `writeBuffer` takes words, blocks are 18, 34, 210 bytes. */
  #carry = new Uint8Array(4);
  #carried = 0;

  constructor(
    private readonly shard: number,
    private readonly table: Float64Array,
    private readonly cx: Pick<LoadContext, 'engine' | 'host'>,
  ) {}

  /** Takes the chunk that lies at `offset` in the file. Chunks come in order, without gaps. */
  async take(offset: number, chunk: Uint8Array): Promise<void> {
    const end = offset + chunk.byteLength;
    while (this.#row * PLACEMENT_COLUMNS < this.table.length) {
      const [start, bytes, target, to] = this.#current();
      const from = start + this.#taken;
      if (from >= end && this.#taken < bytes) return;
      const n = Math.min(end - from, bytes - this.#taken);
      const part = chunk.subarray(from - offset, from - offset + n);
      const last = this.#taken + n === bytes;
      if (target === PUT) {
        this.cx.engine.put(this.shard, from, part);
      } else {
        await this.#toBuffer(target, to, part, last);
      }
      this.#taken += n;
      if (!last) return;
      this.#row += 1;
      this.#taken = 0;
      this.#carried = 0;
    }
  }

  /** Checks that every row is full. */
  finish(shard: ShardReader): void {
    if (this.#row * PLACEMENT_COLUMNS >= this.table.length) return;
    const [start, bytes] = this.#current();
    throw new RlxError('bad_file', `the file ends at byte ${shard.position}, its tensors need ${start + bytes} or more`, {
      at: shard.source.name,
      hint: 'the file is incomplete: get it again',
    });
  }

  async #toBuffer(buffer: number, to: number, part: Uint8Array, last: boolean): Promise<void> {
    const host = this.cx.host;
    if (!host) throw new RlxError('internal', 'a placement names a GPU buffer, and there is no GPU');
    let at = to + this.#taken - this.#carried;
    let rest = part;
    if (this.#carried > 0) {
      const n = Math.min(4 - this.#carried, rest.byteLength);
      this.#carry.set(rest.subarray(0, n), this.#carried);
      this.#carried += n;
      rest = rest.subarray(n);
      if (this.#carried === 4) {
        await host.stream(buffer, at, this.#carry);
        at += 4;
        this.#carried = 0;
      }
    }
    const words = rest.byteLength - (rest.byteLength % 4);
    if (words > 0) await host.stream(buffer, at, rest.subarray(0, words));
    at += words;
    if (words < rest.byteLength) {
      this.#carry.set(rest.subarray(words));
      this.#carried = rest.byteLength - words;
    }
    if (last && this.#carried > 0) {
      this.#carry.fill(0, this.#carried);
      await host.stream(buffer, at, this.#carry);
    }
  }

  #current(): [start: number, bytes: number, target: number, to: number] {
    const i = this.#row * PLACEMENT_COLUMNS;
    return [this.table[i]!, this.table[i + 1]!, this.table[i + 2]!, this.table[i + 3]!];
  }
}

/** Speed is that of so many milliseconds. */
const SPEED_MS = 3000;

/** Adds up what the shards have read. */
class Progress {
  /** Times and bytes in that window, so that the first is its beginning. */
  #seen: [ms: number, bytes: number][] = [];

  constructor(
    private readonly shards: readonly ShardReader[],
    private readonly tell: LoadContext['onProgress'],
  ) {}

  report(phase: LoadProgress['phase'], of?: ShardReader): void {
    if (!this.tell) return;
    let loadedBytes = 0;
    let totalBytes: number | undefined = 0;
    const kinds = new Set<LoadProgress['from']>();
    for (const shard of this.shards) {
      loadedBytes += shard.position;
      const bytes = shard.expectedBytes;
      totalBytes = bytes === undefined || totalBytes === undefined ? undefined : totalBytes + bytes;
      kinds.add(shard.from);
    }
    const from = kinds.size === 1 ? [...kinds][0]! : 'mixed';
    const bytesPerSecond = of && this.#speed(loadedBytes);
    this.tell({
      phase, loadedBytes, from, ...(totalBytes !== undefined && { totalBytes }),
      ...(of && { file: { name: of.source.name, loadedBytes: of.position, ...(of.expectedBytes !== undefined && { totalBytes: of.expectedBytes }) } }),
      ...(bytesPerSecond !== undefined && { bytesPerSecond }),
    });
  }

  #speed(bytes: number): number | undefined {
    const now = Date.now();
    const [last] = this.#seen.at(-1) ?? [-Infinity];
    if (now - last >= SPEED_MS / 30) this.#seen.push([now, bytes]);
    while (this.#seen[0]![0] < now - SPEED_MS) this.#seen.shift();
    const [since, before] = this.#seen[0]!;
    return now > since ? ((bytes - before) * 1000) / (now - since) : undefined;
  }
}
