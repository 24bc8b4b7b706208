/**
 * One shard being read: in order, from the first byte, once. It can be paused (its connection
 * given back) and goes on where it was, and it hands what it reads to the cache on the way.
 */

import { RlxError, throwIfAborted } from './error.js';
import type { CacheWriter } from './cache.js';
import type { Opened, Source } from './source.js';

/** One read's buffer. Byte streams fill the same memory again and again: loading makes no garbage. */
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
    // A stream that has failed rejects its cancellation too; there is nothing left to free.
    await (this.#byob ?? this.#plain)!.cancel().catch(() => {});
  }
}

export class ShardReader {
  /** Bytes read so far: the offset of the next chunk. */
  position = 0;
  /** Length of the whole, once opened and if the source knows it. */
  bytes: number | undefined;
  #reader: ChunkReader | undefined;
  #validator: string | undefined;
  #writer: CacheWriter | undefined;

  /**
   * `keep` is asked once, when the first response is there, for where to keep the bytes.
   * `opened` is that response when the caller already has it.
   */
  constructor(
    readonly source: Source,
    private readonly signal?: AbortSignal,
    private readonly keep?: (opened: Opened) => Promise<CacheWriter | undefined>,
    private opened?: Opened,
  ) {}

  /** Connects; `bytes` is known afterwards if the source knows it. */
  async open(): Promise<void> {
    if (this.#reader) return;
    throwIfAborted(this.signal);
    const opened = this.opened ?? (await this.source.open(this.position, this.signal));
    this.opened = undefined;
    if (this.position === 0) {
      this.bytes = opened.bytes;
      this.#validator = opened.validator;
      this.#writer = await this.keep?.(opened);
    } else if (this.#validator !== opened.validator || this.bytes !== opened.bytes) {
      await opened.stream.cancel().catch(() => {});
      throw new RlxError('io', 'the file changed on the server while it was loading', {
        at: this.source.name,
        hint: 'load again',
      });
    }
    this.#reader = new ChunkReader(opened.stream);
  }

  /** The next chunk, valid until the next call; null at the end. */
  async read(): Promise<Uint8Array | null> {
    await this.open();
    throwIfAborted(this.signal);
    let chunk: Uint8Array | null;
    try {
      chunk = await this.#reader!.read();
    } catch (cause) {
      throwIfAborted(this.signal);
      throw this.#stopped(cause);
    }
    throwIfAborted(this.signal);
    if (chunk === null) {
      if (this.bytes !== undefined && this.position < this.bytes) throw this.#stopped();
      await this.#writer?.publish();
      this.#writer = undefined;
      return null;
    }
    this.position += chunk.byteLength;
    await this.#writer?.write(chunk);
    return chunk;
  }

  /** Gives the connection back; the next read opens it again. */
  async pause(): Promise<void> {
    const reader = this.#reader;
    this.#reader = undefined;
    await reader?.cancel();
  }

  /** Ends reading for good; what was not complete is not kept. */
  async close(): Promise<void> {
    const writer = this.#writer;
    this.#writer = undefined;
    await Promise.all([this.pause(), writer?.abort(), this.opened?.stream.cancel().catch(() => {})]);
    this.opened = undefined;
  }

  #stopped(cause?: unknown): RlxError {
    const of = this.bytes === undefined ? '' : ` of ${this.bytes}`;
    return new RlxError('io', `the stream stopped after ${this.position}${of} bytes`, {
      at: this.source.name,
      hint: 'load again',
      cause,
    });
  }
}
