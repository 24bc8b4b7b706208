/** A stream that the caller gives: it can be read once, from its beginning. */

import { RlxError, throwIfAborted } from './error.js';
import type { Opened, Source, Version } from './source.js';

export class StreamSource implements Source {
  readonly kind = 'file';
  readonly name = 'the stream';
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  /** Bytes that have been handed on. */
  #at = 0;
  /** A chunk that was asked for when the reader paused. */
  #next: Promise<ReadableStreamReadResult<Uint8Array>> | undefined;

  constructor(private readonly stream: ReadableStream<Uint8Array>) {}

  async open(signal?: AbortSignal, rest?: { offset: number; of: Version }): Promise<Opened> {
    throwIfAborted(signal);
    if (this.#reader ? rest?.offset !== this.#at : this.stream.locked) {
      throw new RlxError('usage', 'a stream can be read once', { at: 'model', hint: 'give an address, a Blob, or a new stream' });
    }
    if (!this.#reader) {
      const reader = this.stream.getReader();
      this.#reader = reader;
      signal?.addEventListener('abort', () => void reader.cancel(signal.reason).catch(() => {}), { once: true });
    }
    return { stream: this.#rest(this.#reader), at: this.#at, validator: 'etag:"stream"' };
  }

  /** The bytes that have not been handed on. Cancelling it is a pause. */
  #rest(reader: ReadableStreamDefaultReader<Uint8Array>): ReadableStream<Uint8Array> {
    return new ReadableStream({
      pull: async (out) => {
        const chunk = this.#next ??= reader.read();
        const { done, value } = await chunk;
        try {
          if (done) return out.close();
          if (!(value instanceof Uint8Array)) throw new RlxError('usage', 'the stream is not of bytes', { at: 'model', hint: 'its chunks must be Uint8Array' });
          out.enqueue(value);
        } catch (error) {
          if (error instanceof RlxError) throw error;
          return; // paused: the chunk is for whoever goes on
        }
        this.#next = undefined;
        this.#at += value.byteLength;
      },
    }, { highWaterMark: 0 });
  }
}
