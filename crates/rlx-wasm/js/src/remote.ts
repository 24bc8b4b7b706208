/** An engine behind a port: in a worker, or one that several tabs share. */

import type { Core } from './core.js';
import { cancelled, disposed, gone, throwIfAborted, usage } from './error.js';
import type { RlxError } from './error.js';
import type { Lent } from './kept.js';
import { whenOver } from './life.js';
import { heard } from './listeners.js';
import { signalOf } from './openai/signal.js';
import type { CallOptions, ChatMessage, Completions, SamplingRequest, TextCompletions } from './openai/types.js';
import type { EngineInfo, EngineMemory, LoadOptions, LoadProgress, ReloadOptions, TokenizeOptions } from './types.js';
import { fromWire, WINDOW } from './wire.js';
import type { FromEngine, Method, ToEngine } from './wire.js';

/** A call whose answer has not come, or whose stream has not ended. */
interface Open {
  resolve(value: unknown): void;
  reject(error: RlxError): void;
  onProgress: ((progress: LoadProgress) => void) | undefined;
  stream?: RemoteStream;
}

interface Heard {
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  transfer?: Transferable[];
}

/** What the user of a port needs of its surroundings. */
export interface Around {
  onNotice?: LoadOptions['onNotice'];
  onLost?: LoadOptions['onLost'];
  /** Stores a fact for the origin. */
  keep(name: string, key: string, text: string): void;
  /** The lock that the engine's thread holds for as long as it lives. */
  lock?: string | undefined;
  /** Called once, when the engine's side has freed everything or does not answer. */
  close(): void;
}

/** Milliseconds that a call in another thread may go on after its signal has fired. */
export const ABORT_MS = 40;

/** Milliseconds that a disposed engine has to free its memory before its worker is ended. */
const FREE_MS = 5000;

export class RemoteEngine implements Core {
  readonly chat: { readonly completions: Completions };
  readonly completions: TextCompletions;
  readonly #calls = new Map<number, Open>();
  #next = 0;
  #over: RlxError | undefined;
  #ended: Promise<void> | undefined;
  #freed: () => void = () => {};
  readonly #forget: () => void;
  #info: EngineInfo | undefined;

  /** On a port whose other side has said `hello`. */
  constructor(private readonly port: MessagePort, private readonly around: Around) {
    port.onmessage = ({ data }: MessageEvent<FromEngine>) => this.#hear(data);
    this.#forget = whenOver(around.lock, () => this.#gone());
    const create = (method: 'chat' | 'complete') => async ({ signal, ...request }: SamplingRequest, options?: CallOptions) =>
      await this.#call(method, [plain(request)], { signal: signalOf({ signal }, options) });
    this.chat = { completions: { create: create('chat') as Completions['create'] } };
    this.completions = { create: create('complete') as TextCompletions['create'] };
  }

  /** Loads the model there. `options` must be data, but for the listeners and the signal. */
  async load({ signal, onProgress, onNotice: _, onLost: __, ...options }: LoadOptions, lent: Lent): Promise<void> {
    await this.#call('load', [plain(options), lent], { signal, onProgress });
  }

  info(): EngineInfo {
    this.#check();
    return structuredClone(this.#info!);
  }

  async tokenize(text: string, options: TokenizeOptions = {}): Promise<Uint32Array> {
    return await this.#call('tokenize', [text, options]) as Uint32Array;
  }

  async detokenize(ids: Iterable<number>): Promise<string> {
    return await this.#call('detokenize', [[...ids]]) as string;
  }

  async countTokens(input: string | readonly ChatMessage[]): Promise<number> {
    return await this.#call('countTokens', [input]) as number;
  }

  async memory(): Promise<EngineMemory> {
    return await this.#call('memory', []) as EngineMemory;
  }

  async reload(options: ReloadOptions = {}): Promise<void> {
    await this.#call('reload', [], heard(options));
  }

  dispose(): Promise<void> {
    const reason = disposed();
    this.#ended ??= this.#end(reason);
    this.#over = reason;
    return this.#ended;
  }

  /** The engine's thread has ended. */
  #gone(): void {
    if (!this.#ended) {
      const reason = gone();
      this.#ended = this.#end(reason);
      if (this.#info) this.around.onLost?.(reason); // else the load says so
    }
    this.#freed();
  }

  /** Ends every call with `reason`, and has the other side free everything. */
  async #end(reason: RlxError): Promise<void> {
    this.#over = reason;
    for (const { reject, stream } of this.#calls.values()) {
      stream?.end(reason);
      reject(reason);
    }
    this.#calls.clear();
    this.#tell({ dispose: true });
    let timer: ReturnType<typeof setTimeout> | undefined;
    await new Promise<void>((resolve) => {
      this.#freed = resolve;
      timer = setTimeout(resolve, FREE_MS);
    });
    clearTimeout(timer);
    this.#forget();
    this.port.close();
    this.around.close();
  }

  #check(): void {
    if (this.#over) throw this.#over;
  }

  #tell(message: ToEngine, transfer: Transferable[] = []): void {
    this.port.postMessage(message, transfer);
  }

  async #call(call: Method, args: readonly unknown[], { signal, onProgress, transfer = [] }: Heard = {}): Promise<unknown> {
    this.#check();
    throwIfAborted(signal);
    const id = this.#next++;
    const abort = () => {
      this.#tell({ abort: id });
      // The other side may be in the middle of a long step, such as reading a long text.
      setTimeout(() => this.#settle(id, cancelled()), ABORT_MS);
    };
    try {
      return await new Promise((resolve, reject) => {
        this.#calls.set(id, { resolve, reject, onProgress });
        try {
          this.#tell({ call, id, args }, transfer);
        } catch (cause) {
          this.#calls.delete(id);
          reject(usage(`what a call is given must be data, which a worker can get: ${String((cause as Error).message)}`, ''));
        }
        signal?.addEventListener('abort', abort, { once: true });
      });
    } finally {
      const { stream } = this.#calls.get(id) ?? {};
      // The signal of a stream ends it for as long as it lasts.
      if (stream) stream.onEnd = () => signal?.removeEventListener('abort', abort);
      else signal?.removeEventListener('abort', abort);
    }
  }

  #hear(data: FromEngine): void {
    if ('hello' in data) return;
    if ('disposed' in data) return this.#freed();
    if ('notice' in data) return this.around.onNotice?.(data.notice);
    if ('lost' in data) return this.around.onLost?.(fromWire(data.lost));
    if ('keep' in data) return this.around.keep(...data.keep);
    const id = 'stream' in data ? data.stream : data.id;
    if ('info' in data && data.info) this.#info = data.info;
    const open = this.#calls.get(id);
    if (!open) return; // the engine was disposed
    if ('progress' in data) {
      open.onProgress?.(data.progress);
    } else if ('stream' in data) {
      open.stream = new RemoteStream((message) => this.#tell(message), id);
      open.resolve(open.stream);
    } else if ('chunk' in data) {
      open.stream?.push(data.chunk);
    } else {
      this.#settle(id, 'error' in data ? fromWire(data.error) : undefined, 'value' in data ? data.value : undefined);
    }
  }

  /** Ends a call, if it is open. */
  #settle(id: number, error: RlxError | undefined, value?: unknown): void {
    const open = this.#calls.get(id);
    if (!open) return;
    this.#calls.delete(id);
    open.stream?.end(error);
    if (error) open.reject(error);
    else open.resolve(value);
  }
}

/** The chunks of an answer, as they come. Leaving the loop early stops the answer. */
class RemoteStream implements AsyncIterableIterator<unknown> {
  /** Called once, when no more chunks will come. */
  onEnd: () => void = () => {};
  #unread: unknown[] = [];
  #reads: { resolve(result: IteratorResult<unknown>): void; reject(error: RlxError): void }[] = [];
  /** Chunks read since the other side was told. */
  #read = 0;
  #ended = false;
  #error: RlxError | undefined;
  #left: (() => void)[] | undefined;

  constructor(private readonly tell: (message: ToEngine) => void, private readonly id: number) {}

  [Symbol.asyncIterator](): this {
    return this;
  }

  push(chunk: unknown): void {
    if (this.#left) return;
    const read = this.#reads.shift();
    if (read) read.resolve(this.#took(chunk));
    else this.#unread.push(chunk);
  }

  end(error?: RlxError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.onEnd();
    for (const { resolve, reject } of this.#reads.splice(0)) {
      const error = this.#fault();
      if (error) reject(error);
      else resolve({ value: undefined, done: true });
    }
    this.#left?.forEach((done) => done());
  }

  async next(): Promise<IteratorResult<unknown>> {
    const chunk = this.#unread.shift();
    if (chunk) return this.#took(chunk);
    if (!this.#ended && !this.#left) return new Promise((resolve, reject) => this.#reads.push({ resolve, reject }));
    const error = this.#fault();
    if (error) throw error;
    return { value: undefined, done: true };
  }

  /** Resolves when the engine is idle. */
  async return(): Promise<IteratorResult<unknown>> {
    this.#unread = [];
    if (!this.#ended) {
      if (!this.#left) this.tell({ leave: this.id });
      await new Promise<void>((done) => (this.#left ??= []).push(done));
    }
    this.#error = undefined;
    return { value: undefined, done: true };
  }

  #took(value: unknown): IteratorResult<unknown> {
    this.#read += 1;
    if (!this.#ended && this.#read >= WINDOW / 2) {
      this.tell({ read: this.id, count: this.#read });
      this.#read = 0;
    }
    return { value, done: false };
  }

  /** What ended the answer, once. */
  #fault(): RlxError | undefined {
    const error = this.#error;
    this.#error = undefined;
    return error;
  }
}

/** The same, without the keys that have no value. */
function plain<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;
}
