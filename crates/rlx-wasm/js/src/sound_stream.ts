/** Sounds that come in time, as chunks of samples. */

import { RlxError, usage } from './error.js';
import { Microphone } from './microphone.js';
import type { Samples, SoundStream } from './sound_types.js';

/** A chunk of a sound. */
export type Chunk = Samples | AudioBuffer;

/** Chunks of a sound, one asked for at a time. */
export interface Chunks {
  /** The next one; undefined at the end. */
  next(): Promise<Chunk | undefined>;
  /** Has `next` give what has come already, and then the end. */
  stop(): void;
  /** Closes the sound: nothing more is asked for. Closing twice is allowed. */
  close(): void;
}

/** What opens a sound that comes in time. Throws `usage` for what is none. */
export function chunksOf(source: SoundStream): () => Chunks {
  if (typeof source === 'object' && source !== null) {
    if ('getAudioTracks' in source) return () => new Microphone(source);
    // A stream before an iterable, which it may be too: a reader can be cancelled while it waits.
    if ('getReader' in source) return () => fromStream(source);
    if (Symbol.asyncIterator in source) return () => fromIterable(source);
  }
  throw usage('listen takes a MediaStream, a ReadableStream or an async iterable', 'source', 'its chunks are { samples, sampleRate }');
}

function fromStream(stream: ReadableStream<Chunk>): Chunks {
  let reader: ReadableStreamDefaultReader<Chunk>;
  try {
    reader = stream.getReader();
  } catch (cause) {
    throw new RlxError('usage', 'the stream is read by somebody else', { at: 'source', hint: 'give a stream without a reader', cause });
  }
  return new Given(() => reader.read(), () => reader.cancel());
}

function fromIterable(iterable: AsyncIterable<Chunk>): Chunks {
  const iterator = iterable[Symbol.asyncIterator]();
  return new Given(() => iterator.next(), () => iterator.return?.());
}

/** Chunks that the page's own code gives. */
class Given implements Chunks {
  #over = false;
  #end = () => {};

  constructor(private readonly read: () => Promise<{ done?: boolean | undefined; value?: Chunk | undefined }>, private readonly cancel: () => unknown) {}

  next(): Promise<Chunk | undefined> {
    return new Promise((resolve, reject) => {
      if (this.#over) return resolve(undefined);
      this.#end = () => resolve(undefined);
      const failed = (cause: unknown) => {
        this.#over = true; // an iterator that has failed is not closed
        const said = cause instanceof Error ? cause.message : String(cause);
        reject(cause instanceof RlxError ? cause : new RlxError('io', `the source of the sound failed: ${said}`, { at: 'source', cause }));
      };
      const came = ({ done, value }: { done?: boolean | undefined; value?: Chunk | undefined }) => {
        this.#over ||= done === true;
        resolve(done ? undefined : value);
      };
      Promise.resolve().then(this.read).then(came, failed);
    });
  }

  stop(): void {
    this.close();
    this.#end();
  }

  close(): void {
    if (this.#over) return;
    this.#over = true;
    // Nobody waits: an iterator returns only when its pending `next` has answered.
    Promise.resolve().then(this.cancel).catch(() => {});
  }
}
