/**
 * Reads a shard: in order, from the first byte, once. Reading can be paused, which closes the connection,
 * and continues where it was. The bytes go to the cache too.
 */

import { RlxError, throwIfAborted } from './error.js';
import type { CacheWriter } from './cache.js';
import { isStrong, sameVersion } from './source.js';
import type { Opened, Source, Version } from './source.js';

/** Bytes of the read buffer. Byte streams fill the same memory again and again, so loading makes no garbage. */
const CHUNK_BYTES = 256 * 1024;

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

export class ShardReader {
  /** Bytes read so far: the offset of the next chunk. */
  position = 0;
  #reader: ChunkReader | undefined;
  /** The version of the first answer; every later answer must have the same. */
  #version: Version | undefined;
  #writer: CacheWriter | undefined;
  /** Copies of all bytes read, as long as the stream may be paused and no strong ETag identifies its bytes. */
  #beginning: Uint8Array<ArrayBuffer>[] | undefined;
  /** Bytes beyond `position` of a chunk that was read again. */
  #next: Uint8Array | undefined;
  #staysOpen = false;

  /** `keep` is called once, after the first response, and returns where to store the bytes. */
  constructor(
    readonly source: Source,
    private readonly signal?: AbortSignal,
    private readonly keep?: (opened: Opened) => Promise<CacheWriter | undefined>,
  ) {}

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
  async open(): Promise<void> {
    if (this.#reader) return;
    throwIfAborted(this.signal);
    if (this.#version) return this.#openAgain(this.#version);
    const opened = await this.source.open(this.signal);
    const { stream, at: _, ...version } = opened;
    this.#version = version;
    if (!isStrong(version.validator)) this.#beginning = [];
    this.#writer = await this.keep?.(opened);
    this.#reader = new ChunkReader(stream);
  }

  /** The next chunk, valid until the next call; null at the end. */
  async read(): Promise<Uint8Array | null> {
    // All bytes had arrived before it was paused, so there is nothing to request.
    const over = !this.#reader && this.position > 0 && this.position === this.bytes;
    if (!over) await this.open();
    throwIfAborted(this.signal);
    const chunk = this.#next ?? (over ? null : await this.#readChunk(this.#reader!));
    this.#next = undefined;
    throwIfAborted(this.signal);
    if (chunk === null) {
      if (this.bytes !== undefined && this.position < this.bytes) throw this.#stopped(this.position);
      await this.#writer?.publish();
      this.#writer = undefined;
      return null;
    }
    this.position += chunk.byteLength;
    if (!this.#staysOpen) this.#beginning?.push(chunk.slice());
    await this.#writer?.write(chunk);
    return chunk;
  }

  /** Closes the connection; the next read opens it again. */
  async pause(): Promise<void> {
    const reader = this.#reader;
    this.#reader = undefined;
    this.#next = undefined;
    await reader?.cancel();
  }

  /** Says that the stream will not be paused any more, so that copies of its bytes are not needed. */
  keepOpen(): void {
    this.#staysOpen = true;
    if (this.#reader) this.#beginning = undefined;
  }

  /** Ends reading for good; an incomplete file is not stored. */
  async close(): Promise<void> {
    const writer = this.#writer;
    this.#writer = undefined;
    await Promise.all([this.pause(), writer?.abort()]);
  }

  /**
   * Continues from `position`. A source that cannot prove that its rest has the same version sends the whole
   * file again; the bytes read before are then compared with it, so that all bytes are of this answer's
   * version.
   */
  async #openAgain(of: Version): Promise<void> {
    const opened = await this.source.open(this.signal, { offset: this.position, of });
    const reader = new ChunkReader(opened.stream);
    try {
      if (opened.at !== this.position) {
        if (!sameVersion(of, opened)) throw this.#changed();
        await this.#readAgain(reader);
      }
    } catch (error) {
      await reader.cancel();
      throw error;
    }
    this.#reader = reader;
    if (this.#staysOpen) this.#beginning = undefined;
  }

  async #readAgain(reader: ChunkReader): Promise<void> {
    const before = this.#beginning && new Uint8Array(await new Blob(this.#beginning).arrayBuffer());
    for (let at = 0; at < this.position; ) {
      const chunk = await this.#readChunk(reader, at);
      throwIfAborted(this.signal);
      if (chunk === null) throw this.bytes === undefined ? this.#changed() : this.#stopped(at);
      const n = Math.min(chunk.byteLength, this.position - at);
      for (let i = 0; before && i < n; i += 1) {
        if (chunk[i] !== before[at + i]) throw this.#changed();
      }
      at += n;
      if (n < chunk.byteLength) this.#next = chunk.subarray(n);
    }
  }

  async #readChunk(reader: ChunkReader, at = this.position): Promise<Uint8Array | null> {
    try {
      return await reader.read();
    } catch (cause) {
      throwIfAborted(this.signal);
      throw this.#stopped(at, cause);
    }
  }

  #changed(): RlxError {
    return new RlxError('io', 'the file changed on the server while it was loading', {
      at: this.source.name,
      hint: 'load again',
    });
  }

  #stopped(at: number, cause?: unknown): RlxError {
    const of = this.bytes === undefined ? '' : ` of ${this.bytes}`;
    return new RlxError('io', `the stream stopped after ${at}${of} bytes`, {
      at: this.source.name,
      hint: 'load again',
      cause,
    });
  }
}
