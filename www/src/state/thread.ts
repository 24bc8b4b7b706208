/** A model in a thread of its own, so that the page is never busy with it. */

import { RlxError } from 'rlx-wasm';
import type { DeviceChoice, LoadProgress } from 'rlx-wasm';
import type { Source } from './engine.js';
import type { LoadAsk, Tell } from './thread_types.js';

interface Waiting {
  resolve: (result: never) => void;
  reject: (error: RlxError) => void;
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  onNotice?: ((text: string) => void) | undefined;
  /** What is told of an ask before its answer, where something is. */
  onTold?: ((told: never) => void) | undefined;
}

export type Listening = Pick<Waiting, 'onProgress' | 'onNotice'>;
type Hearing = Listening & Pick<Waiting, 'onTold'>;

/** `Ask` is what it can be asked beside loading a model. */
export class ModelThread<Ask extends object> {
  readonly #waiting = new Map<number, Waiting>();
  #count = 0;
  #ended: RlxError | undefined;

  constructor(private readonly worker: Worker) {
    worker.addEventListener('message', ({ data }: MessageEvent<Tell>) => this.#hear(data));
    worker.addEventListener('error', () =>
      this.#end(new RlxError('internal', 'the thread of the model ended', { hint: 'load the model again' })),
    );
  }

  /** Ends the thread and frees the model. What waits is rejected with `disposed`. */
  dispose(): void {
    this.#end(new RlxError('disposed', 'the model was given up'));
  }

  protected loaded<T>({ model }: Source, device: DeviceChoice, listening: Listening): Promise<T> {
    const paths = Array.isArray(model)
      ? model.map((file: unknown) => (file instanceof File ? file.webkitRelativePath : ''))
      : [];
    return this.ask<T>({ load: { model, paths, device } }, [], listening);
  }

  protected ask<T>(ask: Ask | LoadAsk, transfer: Transferable[] = [], listening: Hearing = {}): Promise<T> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = ++this.#count;
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, ...listening });
      this.worker.postMessage({ id, ...ask }, transfer);
    });
  }

  #hear(data: Tell): void {
    const waiting = this.#waiting.get(data.id);
    if (!waiting) return;
    if ('progress' in data) return waiting.onProgress?.(data.progress);
    if ('notice' in data) return waiting.onNotice?.(data.notice);
    if ('told' in data) return waiting.onTold?.(data.told as never);
    this.#waiting.delete(data.id);
    if ('result' in data) return waiting.resolve(data.result as never);
    const { code, what, at, hint } = data.fault;
    waiting.reject(new RlxError(code, what, { at, hint }));
  }

  #end(error: RlxError): void {
    this.#ended ??= error;
    this.worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(this.#ended);
    this.#waiting.clear();
  }
}
