/**
 * `Engine`: a model on a device.
 *
 * What a page with a worker does not need in its own thread is imported when it is asked for.
 */

import type { Core } from './core.js';
import { connect, loadInWorker, NoWorker, usually } from './in_worker.js';
import { lazyHere } from './lazy_here.js';
import { heard } from './listeners.js';
import type { Models } from './models_types.js';
import type { ChatMessage, Completions, TextCompletions } from './openai/types.js';
import { checkOptions } from './options.js';
import { serve } from './serve.js';
import type { CopyRate, CopyRateOptions, EngineInfo, EngineMemory, Estimate, EstimateOptions, LoadOptions, ReloadOptions, TokenizeOptions, Tuned, TuneOptions } from './types.js';

const stored = async (): Promise<Models> => (await lazyHere.models()).models;

export class Engine {
  /** The models that are stored for this origin. */
  static readonly models: Models = {
    list: async () => (await stored()).list(),
    delete: async (id) => (await stored()).delete(id),
    persist: async () => (await stored()).persist(),
    usage: async () => (await stored()).usage(),
  };
  readonly #core: Core;

  private constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Loads a model. If it fails, nothing is left of the attempt, and it may be called again.
   *
   * If the wasm module ever stops (a bug, or no memory), the calls of its engine reject with `internal`;
   * `dispose`, `reload` and the next `load` work. Other engines continue, except that engines with several threads
   * in one thread of JavaScript share one module and end together.
   *
   * Rejects with an `RlxError`: `usage` (an option), `device_unavailable`, `io` (an address, a
   * stream that stopped), `bad_file`, `unsupported`, `out_of_memory`, `cancelled` (the signal).
   */
  static async load(options: LoadOptions): Promise<Engine> {
    checkOptions(options);
    const { worker, onNotice } = options = heard(options);
    if (worker ?? usually(options)) {
      try {
        return new Engine(await loadInWorker(options));
      } catch (error) {
        if (worker !== undefined || !(error instanceof NoWorker)) throw error;
        onNotice?.({ code: 'worker_unavailable', message: `The model runs in the page’s own thread, which may stutter: ${error.what}.` });
      }
    }
    const { LocalEngine } = await lazyHere.local();
    return new Engine(await LocalEngine.load(options));
  }

  /**
   * An engine that another thread, such as a shared worker, serves on the other end of this port. `dispose` then ends
   * this user's calls, not the engine. Rejects with what the load there rejected with, or `usage` if nothing answers.
   */
  static async connect(port: MessagePort, options?: { signal?: AbortSignal }): Promise<Engine> {
    return new Engine(await connect(port, options));
  }

  /** Lets whoever has the other end of the port use an engine by `connect`, beside other users, also while it loads. */
  static serve(port: MessagePort, engine: Engine | Promise<Engine>): void {
    serve(port, Promise.resolve(engine).then((it) => it.#core));
  }

  /**
   * Measures which kernel variants are fastest on this GPU, and stores the result for later loads of this
   * origin. It takes seconds. Loaded engines do not change. Offer it once, when the page waits anyway. With `report` it
   * also measures what others with such a device can use.
   *
   * Rejects with an `RlxError`: `device_unavailable`, `out_of_memory` (it takes some 100 MB for a while),
   * `device_lost`, `cancelled` (the signal, heeded between measurements).
   */
  static async tune(options: TuneOptions = {}): Promise<Tuned> {
    const { tune } = await lazyHere.tuning();
    return tune(heard(options));
  }

  /**
   * Measures how fast this GPU copies memory, which takes less than a second and up to 512 MB for that time. Decoding a
   * token reads nearly every weight once, so that the rate divided by `info().weightBytes` is about the most tokens per
   * second that a GPU can decode.
   *
   * Rejects with an `RlxError`: `device_unavailable`, `out_of_memory`, `device_lost`, `cancelled` (the signal).
   */
  static async copyRate(options: CopyRateOptions = {}): Promise<CopyRate> {
    const { measureCopies } = await lazyHere.tuning();
    return measureCopies(options);
  }

  /**
   * What a model would need, from its headers alone: bytes to download, memory, and whether this device can have it.
   * It compiles the model in the calling thread, which takes up to a second or two.
   *
   * Rejects as `load` does, but not for missing memory: that is `refusal`.
   */
  static async estimate(options: EstimateOptions): Promise<Estimate> {
    checkOptions({ worker: false, ...options });
    const { estimate } = await lazyHere.estimate();
    return estimate(options);
  }

  /**
   * Removes every shard stored for this origin. Loads that run keep working; what they are writing is `io`, and
   * everything else is removed.
   */
  static async clearCache(): Promise<void> {
    const { clearStores } = await lazyHere.store();
    await clearStores();
  }

  /** Chat completions with OpenAI's shapes. */
  get chat(): { readonly completions: Completions } {
    return this.#core.chat;
  }

  /** Text completions with OpenAI's shapes: no template, no messages. */
  get completions(): TextCompletions {
    return this.#core.completions;
  }

  /** The device, the model, and the speed of the last answer; the last values if the engine has no device any more. */
  info(): EngineInfo {
    return this.#core.info();
  }

  /**
   * The model's tokens of a text. Without `special` the text is plain: nothing is added, and what spells a
   * control token stays text. With it, control tokens are recognised, and the tokens that begin and end a text
   * are added as the model's file wants it. A lone surrogate is read as U+FFFD.
   *
   * Answers also while calls run. Rejects with an `RlxError`: `usage` (no text), `device_lost` (a `reload`
   * is running or did not end well), `disposed`.
   */
  tokenize(text: string, options?: TokenizeOptions): Promise<Uint32Array> {
    return this.#core.tokenize(text, options);
  }

  /**
   * The text of tokens. Control tokens have none; what is not UTF-8, such as half a character at the end, is
   * U+FFFD. Rejects as `tokenize`, and with `usage` for an id that is none of the model's.
   */
  detokenize(ids: Iterable<number>): Promise<string> {
    return this.#core.detokenize(ids);
  }

  /**
   * How many tokens a plain text has, or a prompt of messages: with the chat template, up to where the answer
   * begins. Rejects as `tokenize`, and as a call does for messages that the template refuses.
   */
  countTokens(input: string | readonly ChatMessage[]): Promise<number> {
    return this.#core.countTokens(input);
  }

  /** Bytes that the engine holds now, where. */
  memory(): Promise<EngineMemory> {
    return this.#core.memory();
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
  reload(options?: ReloadOptions): Promise<void> {
    return this.#core.reload(options);
  }

  /**
   * Frees the model's memory, and ends the engine's worker. Calls that run or wait end with code `disposed`. In the
   * calling thread the GPU device itself is not destroyed. Calling it again does nothing.
   */
  dispose(): void {
    void this.#core.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** As `dispose`; resolves when the memory is free. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#core.dispose();
  }
}
