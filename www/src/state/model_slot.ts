/** A model of a view beside the chat: which one it is, and where it stands. */

import { signal } from '@preact/signals';
import { RlxError } from 'rlx-wasm';
import type { LoadProgress } from 'rlx-wasm';
import { failureOf } from './engine.js';
import type { Failure, Source } from './engine.js';
import { say } from './news.js';
import type { ModelThread } from './thread.js';

/** What is heard of a load, and what ends it. */
export interface Opening {
  onProgress: (progress: LoadProgress) => void;
  onNotice: (text: string) => void;
  signal: AbortSignal;
}

interface Kind<M> {
  open(source: Source, opening: Opening): Promise<M>;
  /** Frees a model. */
  close(model: M): void;
  /** What to choose in place of a model of another kind. */
  instead: string;
}

export class ModelSlot<M extends { source: Source }> {
  readonly model = signal<M | undefined>(undefined);
  /** The model that is being loaded. */
  readonly fetching = signal<{ source: Source; progress: LoadProgress | undefined } | undefined>(undefined);
  readonly failure = signal<Failure | undefined>(undefined);
  /** Of the load that runs. */
  #abort: AbortController | undefined;

  constructor(private readonly kind: Kind<M>) {}

  /** Loads a model in place of the present one, which stays if that fails. */
  async load(source: Source): Promise<void> {
    this.#abort?.abort();
    const own = (this.#abort = new AbortController());
    this.failure.value = undefined;
    this.fetching.value = { source, progress: undefined };
    try {
      const model = await this.kind.open(source, {
        signal: own.signal,
        onProgress: (progress) => void (this.#abort === own && (this.fetching.value = { source, progress })),
        onNotice: say,
      });
      if (own.signal.aborted) return this.kind.close(model); // stopped, or another one was chosen
      const before = this.model.value;
      this.model.value = model;
      if (before) this.kind.close(before);
    } catch (error) {
      if (own.signal.aborted) return;
      this.#fail(error, source);
    }
    this.#abort = undefined;
    this.fetching.value = undefined;
  }

  /** Ends the load. What has come is kept where the browser stores models. */
  stop(): void {
    this.#abort?.abort();
    this.#abort = undefined;
    this.fetching.value = undefined;
  }

  /** The model cannot go on: it is given up, and may be loaded again. */
  lose(error: unknown, lost: M | undefined = this.model.value): void {
    if (!lost) return;
    this.kind.close(lost);
    if (this.model.value !== lost) return;
    this.model.value = undefined;
    this.#fail(error, lost.source);
  }

  #fail(error: unknown, source: Source): void {
    const failure = failureOf(error);
    const wrong = error instanceof RlxError && error.code === 'unsupported';
    this.failure.value = {
      ...failure,
      ...(wrong && { hint: this.kind.instead }),
      again: () => void this.load(source),
    };
  }
}

/** What a new thread answers; without an answer, or with the end of the load, the thread ends. */
export async function opened<T extends ModelThread<never>, A>(
  thread: T,
  signal: AbortSignal,
  work: (thread: T) => Promise<A>,
): Promise<A & { thread: T }> {
  const end = () => thread.dispose();
  signal.addEventListener('abort', end, { once: true });
  try {
    return { ...(await work(thread)), thread };
  } catch (error) {
    end();
    throw error;
  } finally {
    signal.removeEventListener('abort', end);
  }
}
