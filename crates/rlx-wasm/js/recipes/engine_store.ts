/** An engine for a user interface: loaded when somebody first looks, its progress and errors are told to all who look. */

import { Engine } from 'rlx-wasm';
import type { LoadOptions } from 'rlx-wasm';

export type EngineState =
  | { status: 'idle' }
  | { status: 'loading'; progress: number }
  | { status: 'ready'; engine: Engine }
  | { status: 'failed'; error: unknown };

export class EngineStore {
  #state: EngineState = { status: 'idle' };
  readonly #listeners = new Set<() => void>();

  constructor(private readonly options: LoadOptions) {}

  readonly get = (): EngineState => this.#state;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (this.#state.status === 'idle') void this.load();
    return () => {
      this.#listeners.delete(listener);
    };
  };

  /** Loads the model, also again after a failure. */
  readonly load = async (): Promise<void> => {
    if (this.#state.status === 'loading' || this.#state.status === 'ready') return;
    this.#set({ status: 'loading', progress: 0 });
    try {
      const engine = await Engine.load({
        ...this.options,
        onProgress: ({ loadedBytes, totalBytes }) => {
          if (totalBytes) this.#set({ status: 'loading', progress: loadedBytes / totalBytes });
        },
      });
      this.#set({ status: 'ready', engine });
    } catch (error) {
      this.#set({ status: 'failed', error });
    }
  };

  #set(state: EngineState): void {
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}
