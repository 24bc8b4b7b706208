/** Chunks of a call, as its reader asks for them. */

import type { Call, Step } from './call.js';

/** What all objects of one answer share. */
export function head(kind: 'chatcmpl' | 'cmpl', model: string): { id: string; created: number; model: string } {
  const id = [...crypto.getRandomValues(new Uint8Array(12))]
    .map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return { id: `${kind}-${id}`, created: Math.floor(Date.now() / 1000), model };
}

/** Every step as the chunks it becomes. Leaving the loop early (`return`) stops the answer. */
export function stream<Chunk>(call: Call, chunksOf: (step: Step) => Chunk[]): AsyncIterableIterator<Chunk> {
  let over = false;
  const made: Chunk[] = [];
  const read = async (): Promise<IteratorResult<Chunk>> => {
    try {
      while (!over) {
        const chunk = made.shift();
        if (chunk !== undefined) return { value: chunk, done: false };
        const step = await call.next();
        if (step) made.push(...chunksOf(step));
        else over = true;
      }
    } catch (error) {
      over = true;
      throw error;
    }
    return { value: undefined, done: true };
  };
  let last: Promise<unknown> = Promise.resolve();
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    // A reader may ask for several chunks at once; they are read one after another, as in a generator.
    next() {
      const chunk = last.then(read, read);
      last = chunk;
      return chunk;
    },
    async return() {
      over = true;
      await call.stop();
      return { value: undefined, done: true };
    },
  };
}
