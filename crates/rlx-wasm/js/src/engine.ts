/** `Engine`: a model on a device. */

import { bring, free, modelItems, webgpuReported } from './bring.js';
import type { Running } from './bring.js';
import { checkMessages, completions } from './chat.js';
import { RlxError, throwIfAborted, toRlxError } from './error.js';
import { heard } from './listeners.js';
import { models } from './models.js';
import type { Models } from './models_types.js';
import { Pending } from './pending.js';
import { platform } from './platform.js';
import { Queue } from './queue.js';
import { clearStores } from './store.js';
import { tune } from './tuning.js';
import type { ChatMessage, Completions, EngineInfo, LoadOptions, ReloadOptions, TokenizeOptions, Tuned, TuneOptions } from './types.js';
import type { WasmEngine, WasmEvent } from './wasm.js';

const LOAD_KEYS: { [key in keyof Required<LoadOptions>]: true } = {
  model: true, device: true, contextLength: true, blockLength: true, gpu: true, cache: true, makeRoom: true, integrity: true, kv: true,
  activations: true, tuning: true, threads: true, wasmUrl: true, onProgress: true, onNotice: true, signal: true,
};

export class Engine {
  /** The models that are stored for this origin. */
  static readonly models: Models = models;
  /** Chat completions with OpenAI's shapes. */
  readonly chat: { readonly completions: Completions };
  readonly #queue = new Queue();
  /** Promises of events that calls wait for. */
  readonly #events = new Pending();
  #over: RlxError | undefined;
  /** The pending promise of the wasm engine, which may be freed only after it has settled. */
  #pending: Promise<unknown> = Promise.resolve();
  /** Null while `reload` loads, and after it failed; `#info` and `#tokens` then have the last values. */
  #running: Running | null;
  #info = '';
  #tokens = new Uint32Array();
  #reload: { abort: AbortController; done: Promise<void> } | undefined;

  private constructor(running: Running, private readonly options: LoadOptions) {
    this.#running = running;
    this.#info = running.wasm.info();
    const engine = {
      start: (request: string) => {
        const { wasm } = this.#live();
        try {
          wasm.start(request);
        } catch (error) {
          throw tellReload(error);
        }
      },
      nextEvent: () => this.#nextEvent(),
      cancel: () => {
        if (!this.#over) this.#running?.wasm.cancel();
      },
    };
    const modelName = (JSON.parse(this.#info) as EngineInfo).model.name;
    this.chat = { completions: completions({ engine, queue: this.#queue, platform, modelName }) };
  }

  /**
   * Loads a model. If it fails, nothing is left of the attempt, and it may be called again.
   *
   * If the wasm module ever stops (a bug, or no memory), the calls of its engine reject with `internal`;
   * `dispose`, `reload` and the next `load` work. Other engines continue, except that engines with several threads
   * share one module and end together.
   *
   * Rejects with an `RlxError`: `usage` (an option), `device_unavailable`, `io` (an address, a
   * stream that stopped), `bad_file`, `unsupported`, `out_of_memory`, `cancelled` (the signal).
   */
  static async load(options: LoadOptions): Promise<Engine> {
    checkOptions(options);
    const { model } = options;
    // A copy for `reload`: later changes to the caller's array must not change this load.
    const kept = { ...heard(options), model: Array.isArray(model) ? [...model] as string[] : model };
    return new Engine(await bring(kept), kept);
  }

  /**
   * Measures which kernel variants are fastest on this GPU, and stores the result for later loads of this
   * origin. It takes seconds. Loaded engines do not change. Offer it once, when the page waits anyway.
   *
   * Rejects with an `RlxError`: `device_unavailable`, `out_of_memory` (it takes some 100 MB for a while),
   * `device_lost`, `cancelled` (the signal, heeded at the end).
   */
  static async tune(options: TuneOptions = {}): Promise<Tuned> {
    return tune(heard(options));
  }

  /**
   * Removes every shard stored for this origin. Loads that run keep working; what they are writing is `io`, and
   * everything else is removed.
   */
  static async clearCache(): Promise<void> {
    await clearStores();
  }

  /** The device, the model, and the speed of the last answer; the last values if the engine has no device any more. */
  info(): EngineInfo {
    this.#check();
    if (this.#running) this.#remember(this.#running);
    return JSON.parse(this.#info) as EngineInfo;
  }

  /**
   * The model's tokens of a text. Without `special` the text is plain: nothing is added, and what spells a
   * control token stays text. With it, control tokens are recognised, and the tokens that begin and end a text
   * are added as the model's file wants it. A lone surrogate is read as U+FFFD.
   *
   * Answers at once, also while calls run. Throws an `RlxError`: `usage` (no text), `device_lost` (a `reload`
   * is running or did not end well), `disposed`.
   */
  tokenize(text: string, { special = false }: TokenizeOptions = {}): Uint32Array {
    if (typeof text !== 'string') throw new RlxError('usage', 'tokenize takes a text', { at: 'text' });
    return this.#ask((wasm) => wasm.tokenize(text, special));
  }

  /**
   * The text of tokens. Control tokens have none; what is not UTF-8, such as half a character at the end, is
   * U+FFFD. Throws as `tokenize`, and `usage` for an id that is none of the model's.
   */
  detokenize(ids: Iterable<number>): string {
    const list = [...ids];
    const wrong = list.find((id) => !(Number.isInteger(id) && id >= 0 && id < 2 ** 32));
    if (wrong !== undefined) throw new RlxError('usage', `${String(wrong)} is no token id`, { at: 'ids' });
    return this.#ask((wasm) => wasm.detokenize(Uint32Array.from(list)));
  }

  /**
   * How many tokens a plain text has, or a prompt of messages: with the chat template, up to where the answer
   * begins. Throws as `tokenize`, and as a call does for messages that the template refuses.
   */
  countTokens(input: string | readonly ChatMessage[]): number {
    if (typeof input === 'string') return this.tokenize(input).length;
    const messages = JSON.stringify(checkMessages(input));
    return this.#ask((wasm) => wasm.tokenizeMessages(messages)).length;
  }

  /**
   * Loads the model again, from where `load` had it, on a newly requested device: after `device_lost`,
   * after an `internal` that says that the wasm module stopped, or at any time. It computes the caches' rows
   * again, so that the next call reuses them, unless the module stopped.
   *
   * It takes a turn like a call. Earlier calls come first; on a lost device they reject with
   * `device_lost`. Later calls wait for it. `info()` works all the time. A second call while it runs
   * joins the first one, whose options hold.
   *
   * Rejects as `load` does. The engine then has no device: calls reject with `device_lost`, and
   * `reload` may be called again.
   */
  reload(options: ReloadOptions = {}): Promise<void> {
    if (!this.#reload) {
      const abort = new AbortController();
      const done = this.#loadAgain(options, abort).finally(() => {
        this.#reload = undefined;
      });
      this.#reload = { abort, done };
    }
    return this.#reload.done;
  }

  /**
   * Frees the model's memory. Calls that run or wait end with code `disposed`. The GPU device
   * itself is not destroyed. Calling it again does nothing.
   */
  dispose(): void {
    if (this.#over) return;
    this.#over = new RlxError('disposed', 'the engine was disposed', { hint: 'load the model again' });
    this.#running?.wasm.cancel();
    this.#events.end(this.#over);
    this.#queue.close(this.#over);
    this.#reload?.abort.abort();
    const free = () => this.#free();
    void this.#pending.then(free, free);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #check(): void {
    if (this.#over) throw this.#over;
  }

  #live(): Running {
    this.#check();
    if (this.#running) return this.#running;
    throw tellReload(new RlxError('device_lost', 'the model is on no device: its reload did not end well'));
  }

  /** What the wasm engine answers at once. */
  #ask<T>(question: (wasm: WasmEngine) => T): T {
    const { wasm } = this.#live();
    try {
      return question(wasm);
    } catch (error) {
      throw tellReload(error);
    }
  }

  #free(): void {
    const running = this.#running;
    this.#running = null;
    if (running) free(running);
  }

  #remember({ wasm }: Running): void {
    try {
      this.#info = wasm.info();
    } catch {
      // A module that has stopped cannot be asked any more.
    }
  }

  async #loadAgain(options: ReloadOptions, abort: AbortController): Promise<void> {
    this.#check();
    const { onProgress, signal } = heard(options);
    const release = await this.#queue.turn(signal);
    const stop = () => abort.abort();
    signal?.addEventListener('abort', stop, { once: true });
    try {
      throwIfAborted(signal);
      await this.#pending;
      if (this.#running) {
        // Freed before anything is loaded, so that a device need not hold the model twice.
        this.#remember(this.#running);
        this.#tokens = cached(this.#running);
        this.#free();
      }
      const running = await bring({ ...this.options, signal: abort.signal }, { onProgress, tokens: this.#tokens });
      if (this.#over) free(running);
      else this.#running = running;
      this.#check();
    } catch (error) {
      throw this.#over ?? tellReload(error);
    } finally {
      signal?.removeEventListener('abort', stop);
      release();
    }
  }

  async #nextEvent(): Promise<string> {
    const { wasm, host } = this.#live();
    const nextEvent = () => {
      const event = wasm.nextEvent().catch((error: unknown) => {
        throw tellReload(error);
      });
      this.#pending = event.catch(() => {});
      return this.#events.add(event);
    };
    const json = await nextEvent();
    const error = host?.takeError();
    if (!error) return json;
    // The device's results cannot be trusted: end the call, inside the engine too.
    wasm.cancel();
    for (let last = json; (JSON.parse(last) as WasmEvent).type !== 'done';) last = await nextEvent();
    throw webgpuReported(error);
  }
}

/** The tokens in the caches; none if the module has stopped, so that the next call computes its whole prompt. */
function cached({ wasm }: Running): Uint32Array<ArrayBuffer> {
  try {
    return wasm.cached() as Uint32Array<ArrayBuffer>;
  } catch {
    return new Uint32Array();
  }
}

/** The same error; after the loss of a device, with a hint for the page. */
function tellReload(thrown: unknown): RlxError {
  const error = toRlxError(thrown);
  if (error.code !== 'device_lost') return error;
  return new RlxError(error.code, error.what, { at: error.at, hint: 'call engine.reload()', cause: error.cause });
}

function checkOptions(options: LoadOptions): void {
  const usage = (what: string, at: string) => new RlxError('usage', what, { at });
  for (const key of Object.keys(options)) {
    if (!(key in LOAD_KEYS)) throw usage(`${key} is not an option of load`, key);
  }
  const oneOf = (key: 'device' | 'kv' | 'activations', values: readonly string[]) => {
    const value = options[key];
    if (value !== undefined && !values.includes(value)) {
      throw usage(`${key} is ${String(value)}, it must be ${values.join(' or ')}`, key);
    }
  };
  oneOf('device', ['auto', 'webgpu', 'cpu']);
  oneOf('kv', ['f32', 'f16', 'q8_0']);
  oneOf('activations', ['f32', 'int8']);
  const context = options.contextLength;
  if (context !== undefined && !(Number.isInteger(context) && context >= 16 && context <= 2 ** 24)) {
    throw usage(`contextLength is ${String(context)}, it must be a whole number from 16 to 16777216`, 'contextLength');
  }
  const { blockLength } = options;
  if (blockLength !== undefined && !(Number.isInteger(blockLength) && blockLength >= 2 && blockLength <= 4096)) {
    throw usage(`blockLength is ${String(blockLength)}, it must be a whole number from 2 to 4096`, 'blockLength');
  }
  const { threads } = options;
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= 64)) {
    throw usage(`threads is ${String(threads)}, it must be a whole number from 1 to 64`, 'threads');
  }
  const items = modelItems(options);
  const fits = items.every((item) => typeof item === 'string' || item instanceof URL || item instanceof Blob);
  if (items.length === 0 || !fits) {
    throw usage('model must be one address or Blob, or an array of at least one', 'model');
  }
}
