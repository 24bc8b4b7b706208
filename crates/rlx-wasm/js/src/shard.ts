/**
 * Reads a shard: in order, from the first byte, once. Reading can be paused, which closes the connection,
 * and continues where it was; so it does after a fault of the connection or the server.
 *
 * What a copy in the browser's storage has comes from there, and the bytes of the server go to the copy.
 */

import { RlxError, throwIfAborted } from './error.js';
import { arrived, inTime, PassingError, PATIENCE, Tries } from './retry.js';
import { Sha256 } from './sha256.js';
import { isStrong, sameVersion } from './source.js';
import type { Source, Version } from './source.js';

/** Bytes of the read buffer. Byte streams fill the same memory again and again, so loading makes no garbage. */
const CHUNK_BYTES = 256 * 1024;

/** A copy of a file in the browser's storage. An error of the storage ends the keeping, never the loading. */
export interface Copy {
  /** Whether it is complete, so that no server is needed. */
  readonly whole: boolean;
  /** The version that it has the beginning of, or all; undefined if it has nothing. */
  readonly version: Version | undefined;
  /** The hash that its bytes were found to have. */
  readonly sha256: string | undefined;
  /** Its bytes from a position on; undefined if the server is to be asked. May wait for another load that writes them. */
  read(at: number): Promise<Blob | undefined>;
  /** The server's bytes will be of this version, and begin at a position. */
  begin(version: Version, at: number): Promise<void>;
  write(chunk: Uint8Array): Promise<void>;
  /** Keeps what was written so far, also if this page ends now. */
  flush(): Promise<void>;
  /** All bytes were written. */
  publish(sha256?: string): Promise<void>;
  /** Nothing more will be written. What there is may be continued by a later load, unless it is `wrong`. */
  close(wrong: boolean): Promise<void>;
}

/** Reads a stream chunk by chunk; a chunk is valid until the next read. */
class ChunkReader {
  #byob: ReadableStreamBYOBReader | undefined;
  #plain: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #buffer: ArrayBuffer = new ArrayBuffer(0);

  constructor(stream: ReadableStream<Uint8Array>) {
    try {
      this.#byob = stream.getReader({ mode: 'byob' });
      this.#buffer = new ArrayBuffer(CHUNK_BYTES);
    } catch {
      this.#plain = stream.getReader(); // not a byte stream: chunks come as they are
    }
  }

  async read(): Promise<Uint8Array | null> {
    if (this.#plain) {
      const { value, done } = await this.#plain.read();
      return done ? null : value;
    }
    const { value, done } = await this.#byob!.read(new Uint8Array(this.#buffer));
    if (done || !value) return null;
    this.#buffer = value.buffer as ArrayBuffer;
    return value;
  }

  async cancel(): Promise<void> {
    // A failed stream rejects its cancellation too; there is nothing left to free.
    await (this.#byob ?? this.#plain)!.cancel().catch(() => {});
  }
}

/** What else a reader may have. */
export interface ReaderOptions {
  copy?: Copy | undefined;
  /** The hash that the file must have, as 64 hexadecimal digits. */
  sha256?: string | undefined;
  patience?: typeof PATIENCE;
}

export class ShardReader {
  /** Bytes read so far: the offset of the next chunk. */
  position = 0;
  #reader: ChunkReader | undefined;
  /** Whether `#reader` reads the copy, and whether the copy may have more. */
  #fromCopy = false;
  #copyGoesOn: boolean;
  #begun = false;
  /** The version of the first answer; every later answer must have the same. */
  #version: Version | undefined;
  /** A checksum of all bytes read, if no strong ETag says that other answers have the same. */
  #sum: number | undefined;
  #hash: Sha256 | undefined;
  #wrong = false;
  /** Bytes beyond `position` of a chunk that was read again. */
  #next: Uint8Array | undefined;
  readonly #copy: Copy | undefined;
  readonly #sha256: string | undefined;
  readonly #patience: typeof PATIENCE;
  readonly #tries: Tries;

  constructor(readonly source: Source, private readonly signal?: AbortSignal, { copy, sha256, patience = PATIENCE }: ReaderOptions = {}) {
    this.#copy = copy;
    this.#copyGoesOn = copy !== undefined;
    this.#sha256 = sha256;
    this.#patience = patience;
    this.#tries = new Tries(patience);
  }

  /** Where the bytes come from. */
  get from(): 'network' | 'cache' | 'file' {
    return this.#copy?.whole ? 'cache' : this.source.kind;
  }

  /** Length of the file, once opened, if the source is sure of it. */
  get bytes(): number | undefined {
    return this.#version?.bytes;
  }

  /** Length of the file for progress: also one that the server merely claims, until it proves wrong. */
  get expectedBytes(): number | undefined {
    const claimed = this.#version?.claimed;
    return this.bytes ?? (claimed !== undefined && claimed >= this.position ? claimed : undefined);
  }

  /** Connects; `bytes` is known afterwards if the source knows it. */
  open(): Promise<void> {
    return this.#trying(() => this.#open());
  }

  /** The next chunk, valid until the next call; null at the end. */
  async read(): Promise<Uint8Array | null> {
    const chunk = await this.#trying(() => this.#chunk());
    throwIfAborted(this.signal);
    if (chunk === null) {
      await this.#end();
      return null;
    }
    const kept = this.#fromCopy;
    this.position += chunk.byteLength;
    if (this.#sum !== undefined) this.#sum = checksum(this.#sum, chunk);
    this.#hash?.update(chunk);
    if (!kept) await this.#copy?.write(chunk);
    return chunk;
  }

  /** Closes the connection; the next read opens it again. */
  async pause(): Promise<void> {
    await Promise.all([this.#drop(), this.#copy?.flush()]);
  }

  /** Has nothing of the file kept: it is not what it must be. */
  discard(): void {
    this.#wrong = true;
  }

  /** Ends reading for good. */
  async close(): Promise<void> {
    await this.#drop();
    await this.#copy?.close(this.#wrong);
  }

  async #drop(): Promise<void> {
    const reader = this.#reader;
    this.#reader = undefined;
    this.#next = undefined;
    await reader?.cancel();
  }

  /** Attempts something until it succeeds, or fails for good. */
  async #trying<T>(attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        throwIfAborted(this.signal);
        return await attempt();
      } catch (error) {
        throwIfAborted(this.signal);
        await this.#drop();
        await this.#tries.again(error, this.position, this.signal);
      }
    }
  }

  async #open(): Promise<void> {
    if (this.#reader) return;
    if (this.#copyGoesOn) {
      const blob = await this.#copy!.read(this.position).catch(() => undefined);
      throwIfAborted(this.signal);
      if (blob) {
        if (!this.#version) this.#is(this.#copy!.version!);
        this.#fromCopy = true;
        this.#reader = new ChunkReader(blob.stream());
        return;
      }
      this.#copyGoesOn = false;
      // The load that wrote the file may have learned its length only at the end.
      const { version } = this.#copy!;
      if (this.#version && version?.bytes !== undefined) this.#version = version;
      if (this.#over) return;
    }
    await this.#connect();
  }

  /** Whether all bytes have been read, so that there is nothing to request. */
  get #over(): boolean {
    return this.position > 0 && this.position === this.bytes;
  }

  async #chunk(): Promise<Uint8Array | null> {
    for (;;) {
      if (!this.#reader && this.#over) return null;
      await this.#open();
      if (!this.#reader) return null;
      const chunk = this.#next ?? await this.#take(this.#reader);
      this.#next = undefined;
      if (chunk) return chunk;
      if (!this.#fromCopy) {
        if (this.bytes !== undefined && this.position < this.bytes) throw this.#stopped(this.position);
        return null;
      }
      await this.#drop(); // what comes next may be in the copy by now
    }
  }

  /** The first answer says what version all bytes are of. */
  #is(version: Version): void {
    this.#version = version;
    if (!isStrong(version.validator)) this.#sum = START;
    const wanted = this.#sha256 ?? version.sha256;
    if (wanted !== undefined && wanted !== this.#copy?.sha256) this.#hash = new Sha256();
  }

  /**
   * Asks the server, for the rest if something was read. A source that cannot prove that its rest has the same
   * version sends the whole file again; the bytes read before are then compared with it, so that all bytes are of
   * this answer's version.
   */
  async #connect(): Promise<void> {
    const of = this.#version;
    this.#fromCopy = false;
    const { stream, at, ...version } = await this.source.open(this.signal, of && { offset: this.position, of }, this.#patience.stallMs);
    const reader = new ChunkReader(stream);
    try {
      if (of && at !== this.position) {
        if (!sameVersion(of, version)) throw this.#changed();
        await this.#readAgain(reader);
      }
      if (!of) this.#is(version);
      if (!this.#begun) {
        this.#begun = true;
        await this.#copy?.begin(this.#version!, this.position);
      }
    } catch (error) {
      await reader.cancel();
      throw error;
    }
    this.#reader = reader;
  }

  async #readAgain(reader: ChunkReader): Promise<void> {
    let sum = START;
    for (let at = 0; at < this.position; ) {
      const chunk = await this.#take(reader, at);
      if (chunk === null) throw this.bytes === undefined ? this.#changed() : this.#stopped(at);
      const n = Math.min(chunk.byteLength, this.position - at);
      if (this.#sum !== undefined) sum = checksum(sum, chunk.subarray(0, n));
      at += n;
      if (n < chunk.byteLength) this.#next = chunk.subarray(n);
    }
    if (this.#sum !== undefined && sum !== this.#sum) throw this.#changed();
  }

  async #take(reader: ChunkReader, at = this.position): Promise<Uint8Array | null> {
    const { stallMs } = this.#patience;
    try {
      const late = () => new RlxError('io', `no byte came for ${stallMs / 1000} s`);
      const chunk = await (this.source.kind === 'network' ? inTime(reader.read(), stallMs, late) : reader.read());
      arrived();
      return chunk;
    } catch (cause) {
      throwIfAborted(this.signal);
      if (this.#fromCopy) this.#copyGoesOn = false; // removed by another tab: the server has it
      throw this.#stopped(at, cause);
    }
  }

  /** Checks the hash, and keeps the file. */
  async #end(): Promise<void> {
    const found = this.#hash?.hex();
    this.#hash = undefined;
    const wanted = this.#sha256 ?? this.#version?.sha256;
    if (found !== undefined && found !== wanted) {
      this.#wrong = true;
      throw new RlxError('bad_file', `the file's SHA-256 is ${found}, it must be ${wanted}`, {
        at: this.source.name,
        hint: 'it is not the file that was meant: nothing of it is kept',
      });
    }
    await this.#copy?.publish(found);
  }

  #changed(): RlxError {
    this.#wrong = true;
    return new RlxError('io', 'the file changed on the server while it was loading', {
      at: this.source.name,
      hint: 'load again',
    });
  }

  #stopped(at: number, cause?: unknown): RlxError {
    const of = this.bytes === undefined ? '' : ` of ${this.bytes}`;
    const why = cause instanceof RlxError ? `, as ${cause.what}` : '';
    const more = { at: this.source.name, hint: 'load again', cause };
    const what = `the stream stopped after ${at}${of} bytes${why}`;
    return this.source.kind === 'network' ? new PassingError(what, more) : new RlxError('io', what, more);
  }
}

const START = 0x811c9dc5;

/** FNV-1a, byte by byte: no single change leaves it the same. */
function checksum(sum: number, bytes: Uint8Array): number {
  let next = sum;
  for (let i = 0; i < bytes.length; i += 1) next = Math.imul(next ^ bytes[i]!, 0x01000193);
  return next;
}
