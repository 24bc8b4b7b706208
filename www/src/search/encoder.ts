/** A model that makes vectors of texts, in a thread of its own. */

import { RlxError } from 'rlx-wasm';
import type { DeviceChoice, LoadProgress } from 'rlx-wasm';
import type { Source } from '../state/engine.js';
import type { Ask, EncoderInfo, Tell, Vectors } from './protocol.js';

interface Waiting {
  resolve: (result: never) => void;
  reject: (error: RlxError) => void;
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  onNotice?: ((text: string) => void) | undefined;
}

type Listening = Pick<Waiting, 'onProgress' | 'onNotice'>;
type Request = Ask extends infer One ? (One extends unknown ? Omit<One, 'id'> : never) : never;

export class Encoder {
  readonly #worker = new Worker(new URL('./encoder_worker.ts', import.meta.url), { type: 'module' });
  readonly #waiting = new Map<number, Waiting>();
  #count = 0;
  #ended: RlxError | undefined;

  constructor() {
    this.#worker.addEventListener('message', ({ data }: MessageEvent<Tell>) => this.#hear(data));
    this.#worker.addEventListener('error', () =>
      this.#end(new RlxError('internal', 'the thread of the model ended', { hint: 'load the model again' })),
    );
  }

  load(source: Source, device: DeviceChoice, listening: Listening): Promise<EncoderInfo> {
    const { model } = source;
    const paths = Array.isArray(model)
      ? model.map((file: unknown) => (file instanceof File ? file.webkitRelativePath : ''))
      : [];
    return this.#ask<EncoderInfo>({ load: { model, paths, device } }, listening);
  }

  /** Vectors of length 1. Calls run one after another. */
  embed(texts: readonly string[]): Promise<Vectors> {
    return this.#ask<Vectors>({ embed: texts });
  }

  /** Ends the thread and frees the model. What waits is rejected with `disposed`. */
  dispose(): void {
    this.#end(new RlxError('disposed', 'the model was given up'));
  }

  #ask<T extends EncoderInfo | Vectors>(request: Request, listening: Listening = {}): Promise<T> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = ++this.#count;
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, ...listening });
      this.#worker.postMessage({ id, ...request });
    });
  }

  #hear(data: Tell): void {
    const waiting = this.#waiting.get(data.id);
    if (!waiting) return;
    if ('progress' in data) return waiting.onProgress?.(data.progress);
    if ('notice' in data) return waiting.onNotice?.(data.notice);
    this.#waiting.delete(data.id);
    if ('result' in data) return waiting.resolve(data.result as never);
    const { code, what, at, hint } = data.fault;
    waiting.reject(new RlxError(code, what, { at, hint }));
  }

  #end(error: RlxError): void {
    this.#ended ??= error;
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(this.#ended);
    this.#waiting.clear();
  }
}
