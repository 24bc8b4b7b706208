/** A model on a device of this thread. */

import { bring, free, webgpuReported } from './bring.js';
import type { Running } from './bring.js';
import type { Core } from './core.js';
import { disposed, RlxError, throwIfAborted, toRlxError, usage } from './error.js';
import { heard } from './listeners.js';
import { abilities } from './openai/abilities.js';
import { completions } from './openai/chat.js';
import { templateMessages } from './openai/messages.js';
import { textCompletions } from './openai/text.js';
import type { ChatMessage, Completions, TextCompletions } from './openai/types.js';
import { Pending } from './pending.js';
import { platform } from './platform.js';
import { Queue } from './queue.js';
import type { EngineInfo, EngineMemory, LoadOptions, ReloadOptions, TokenizeOptions } from './types.js';
import type { WasmEngine, WasmEvent, WasmInfo } from './wasm.js';

export class LocalEngine implements Core {
  readonly chat: { readonly completions: Completions };
  readonly completions: TextCompletions;
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
  /** The texts of the chat template, and of the one with tools, which a reload does not change. */
  readonly #templates: readonly [string, string];
  readonly #abilities: ReturnType<typeof abilities>;
  #disposed: Promise<void> | undefined;
  #reload: { abort: AbortController; done: Promise<void> } | undefined;

  private constructor(running: Running, private readonly options: LoadOptions) {
    this.#running = running;
    this.#info = running.wasm.info();
    this.#watch(running);
    this.#templates = [running.wasm.template(false), running.wasm.template(true)];
    // A text's tokens are between those that begin and end every text.
    const tokens = (text: string) => running.wasm.tokenize(text, true).length;
    this.#abilities = abilities(this.#templates[1], (text) => tokens(text) === tokens('') + 1);
    const engine = {
      start: (...given: Parameters<WasmEngine['start']>) => this.#ask((wasm) => wasm.start(...given)),
      vocabulary: () => this.#ask((wasm) => wasm.vocabulary()),
      template: (tools: boolean) => {
        this.#check();
        return this.#templates[tools ? 1 : 0];
      },
      tokenize: (text: string, special: boolean) => this.#ask((wasm) => wasm.tokenize(text, special)),
      tokenizeMessages: (request: string) => this.#ask((wasm) => wasm.tokenizeMessages(request)),
      info: () => this.#ask((wasm) => wasm.info()),
      detokenize: (ids: Uint32Array) => this.#ask((wasm) => wasm.detokenize(ids)),
      nextEvent: () => this.#nextEvent(),
      cancel: () => {
        if (!this.#over) this.#running?.wasm.cancel();
      },
    };
    const modelName = (JSON.parse(this.#info) as EngineInfo).model.name;
    const context = { engine, queue: this.#queue, platform, modelName, grammarWasm: options.grammarWasm };
    this.chat = { completions: completions(context) };
    this.completions = textCompletions(context);
  }

  static async load(options: LoadOptions): Promise<LocalEngine> {
    const { model } = options;
    // A copy for `reload`: later changes to the caller's array must not change this load.
    const kept = { ...heard(options), model: Array.isArray(model) ? [...model] as string[] : model };
    return new LocalEngine(await bring(kept), kept);
  }

  info(): EngineInfo {
    this.#check();
    if (this.#running) this.#remember(this.#running);
    const { model, ...info } = JSON.parse(this.#info) as WasmInfo;
    return { comparison: null, ...info, model: { ...model, ...this.#abilities } };
  }

  async tokenize(text: string, { special = false }: TokenizeOptions = {}): Promise<Uint32Array> {
    if (typeof text !== 'string') throw usage('tokenize takes a text', 'text');
    return this.#ask((wasm) => wasm.tokenize(text, special));
  }

  async detokenize(ids: Iterable<number>): Promise<string> {
    const list = [...ids];
    const wrong = list.find((id) => !(Number.isInteger(id) && id >= 0 && id < 2 ** 32));
    if (wrong !== undefined) throw usage(`${String(wrong)} is no token id`, 'ids');
    return this.#ask((wasm) => wasm.detokenize(Uint32Array.from(list)));
  }

  async countTokens(input: string | readonly ChatMessage[]): Promise<number> {
    if (typeof input === 'string') return (await this.tokenize(input)).length;
    const request = JSON.stringify({ messages: templateMessages(input, this.#templates[0]) });
    return this.#ask((wasm) => wasm.tokenizeMessages(request)).length;
  }

  async memory(): Promise<EngineMemory> {
    const { wasm, host } = this.#live();
    return { gpu: host?.memory() ?? null, wasm: wasm.memoryBytes() };
  }

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

  dispose(): Promise<void> {
    return (this.#disposed ??= this.#end());
  }

  async #end(): Promise<void> {
    this.#over = disposed();
    this.#running?.wasm.cancel();
    this.#events.end(this.#over);
    this.#queue.close(this.#over);
    this.#reload?.abort.abort();
    await this.#pending.catch(() => {});
    await this.#reload?.done.catch(() => {});
    this.#free();
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

  /** Tells the caller if what runs the model ends. */
  #watch(running: Running): void {
    const { onLost } = this.options;
    if (!onLost) return;
    const tell = (error: RlxError) => {
      if (this.#running === running) onLost(tellReload(error));
    };
    void running.wasm.ended.then(tell);
    void running.host?.lost.then((what) => tell(new RlxError('device_lost', what)));
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
      this.#watch(running);
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
