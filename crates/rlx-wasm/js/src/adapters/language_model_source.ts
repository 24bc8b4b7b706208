/** The engine that sessions share: loaded with the first, freed a while after the last. */

import type { LoadOptions } from '../types.js';
import type { ChatEngine } from './engine.js';

/** Milliseconds that a model stays without sessions: pages often end one session and begin another. */
const KEEP_MS = 60_000;

type Owned = ChatEngine & { dispose(): void };
export type Load = (options: Pick<LoadOptions, 'signal' | 'onProgress'>) => Promise<Owned>;
type Tell = (share: number) => void;

export class Source {
  #engine: Promise<Owned> | undefined;
  #ready = false;
  #users = 0;
  #stop = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #listeners = new Set<Tell>();

  constructor(private readonly load: Load) {}

  get state(): 'available' | 'downloading' | 'downloadable' {
    if (this.#ready) return 'available';
    return this.#engine ? 'downloading' : 'downloadable';
  }

  /** The engine for one more user, who calls `release` once. A load that nobody waits for any more is stopped. */
  async acquire(signal: AbortSignal, tell: Tell): Promise<ChatEngine> {
    signal.throwIfAborted();
    clearTimeout(this.#timer);
    this.#users += 1;
    this.#listeners.add(tell);
    try {
      return await unless(signal, this.#engine ??= this.#begin());
    } catch (error) {
      this.release();
      throw error;
    } finally {
      this.#listeners.delete(tell);
    }
  }

  release(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    if (!this.#ready) return this.#free();
    this.#timer = setTimeout(() => this.#free(), KEEP_MS);
    // Node need not wait for it.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  #begin(): Promise<Owned> {
    const { signal } = this.#stop = new AbortController();
    const engine = this.load({
      signal,
      onProgress: ({ loadedBytes, totalBytes }) => {
        if (totalBytes) for (const tell of this.#listeners) tell(Math.min(loadedBytes / totalBytes, 1));
      },
    });
    engine.then(
      () => {
        this.#ready = this.#engine === engine;
      },
      () => {
        if (this.#engine === engine) this.#engine = undefined;
      },
    );
    return engine;
  }

  #free(): void {
    this.#stop.abort();
    void this.#engine?.then((engine) => engine.dispose(), () => {});
    this.#engine = undefined;
    this.#ready = false;
  }
}

/** What work resolves to, unless the signal fires before. */
export async function unless<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let leave = () => {};
  const left = new Promise<never>((_, reject) => {
    leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    if (signal.aborted) leave();
  });
  try {
    const result = await Promise.race([work, left]);
    signal.throwIfAborted();
    return result;
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
