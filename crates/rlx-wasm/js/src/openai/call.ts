/** A call: its answers, computed one after another when its turn has come. */

import { cancelled, RlxError, toRlxError, withText } from '../error.js';
import { lazy } from '../lazy.js';
import type { Queue } from '../queue.js';
import type { WasmSource } from '../types.js';
import type { Platform, WasmEngine, WasmEvent, WasmLikely, WasmRequest } from '../wasm.js';
import type { AnswerReader, Delta } from './answer.js';
import type { Hold } from './held.js';
import type { FinishReason, Usage } from './types.js';

/**
 * If the page had no turn for this long, the next event waits for one: the CPU executor may work up to 40 ms
 * on an event, and the page must not be blocked for more than 50.
 */
const SLICE_MS = 4;

/** The part of the engine that calls use. After `dispose` each method throws or rejects with `disposed`. */
export interface ChatContext {
  engine: Pick<WasmEngine, 'start' | 'nextEvent' | 'cancel' | 'template' | 'tokenize' | 'tokenizeMessages' | 'detokenize' | 'info' | 'vocabulary'>;
  queue: Queue;
  platform: Platform;
  modelName: string;
  /** Where the module is that holds answers to a form, if not in the package. */
  grammarWasm?: WasmSource | undefined;
}

/** An answer to compute. */
export interface Asked {
  request: WasmRequest;
  /** Its reader, made when the prompt's end is known. */
  reader: (promptEnd: string) => AnswerReader;
  /** Whether the prompt is another than that of the answer before. */
  counts: boolean;
  /** What holds it to a form, if it has one. */
  hold?: Hold | undefined;
}

/** Prepares a call while it waits for its turn; gives both. */
export async function whileWaiting<T>(turn: Promise<() => void>, work: Promise<T> | undefined): Promise<[release: () => void, done: T | undefined]> {
  try {
    return await Promise.all([turn, work]);
  } catch (error) {
    turn.then((release) => release(), () => {});
    throw error;
  }
}

/** What a call tells: a part of an answer, the end of one, and after the last the usage of all. */
export type Step = { index: number; likely: readonly WasmLikely[] }
  & ({ delta: Delta } | { reason: FinishReason; usage: Usage | undefined });

/**
 * A running call. It runs as fast as the device gives tokens and buffers unread text, so that a reader who is
 * slow or stops reading does not delay the calls in the queue.
 */
export class Call {
  /** Settles when the engine is free for the next call; never rejects. */
  readonly ended: Promise<void>;
  #unread: Step[] = [];
  /** Set when all answers are there, or the call has failed. */
  #over: { error?: RlxError } | undefined;
  #stopped = false;
  #wake: () => void = () => {};
  /** Text of the answer under way. */
  #text = '';
  #sliceStart: number;

  constructor(
    private readonly cx: ChatContext,
    private readonly asked: readonly Asked[],
    private readonly signal: AbortSignal | undefined,
    /** When it was asked for. */
    private readonly since: number,
  ) {
    this.#sliceStart = cx.platform.now();
    this.ended = this.#run();
  }

  /** The next step, undefined behind the last; throws the call's error after all steps. One reader at a time. */
  async next(): Promise<Step | undefined> {
    for (;;) {
      const step = this.#unread.shift();
      if (step !== undefined) return step;
      if (this.#over?.error) throw this.#over.error;
      if (this.#over) return undefined;
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }

  /** Stops the answers; resolves when the engine is idle. */
  stop(): Promise<void> {
    if (!this.#over) this.#cancel();
    return this.ended;
  }

  #cancel = (): void => {
    this.#stopped = true;
    this.cx.engine.cancel();
    // The engine ends after its step, which may be a long one: the caller does not wait for it.
    this.#end(cancelled());
  };

  async #run(): Promise<void> {
    this.signal?.addEventListener('abort', this.#cancel, { once: true });
    if (this.signal?.aborted) this.#stopped = true;
    const usage: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    try {
      for (let index = 0; index < this.asked.length; index++) await this.#answer(index, usage);
      this.#end();
    } catch (thrown) {
      this.#end(toRlxError(thrown));
    } finally {
      this.signal?.removeEventListener('abort', this.#cancel);
    }
  }

  /** Lets the reader know that no more steps come, and why; what comes first counts. */
  #end(error?: RlxError): void {
    this.#over ??= !error ? {} : { error: error.text === undefined && this.#text !== '' ? withText(error, this.#text) : error };
    this.#wake();
  }

  async #answer(index: number, usage: Usage): Promise<void> {
    if (this.#stopped) throw cancelled();
    const held = this.asked[index]!.hold?.();
    try {
      await this.#heldAnswer(index, usage, held);
    } finally {
      held?.end();
    }
  }

  async #heldAnswer(index: number, usage: Usage, held: ReturnType<Hold> | undefined): Promise<void> {
    const { engine, platform } = this.cx;
    const { request, reader: readerOf, counts } = this.asked[index]!;
    this.#text = '';
    const started = platform.now();
    const fitted = request.slides && await (await lazy.slide()).fit(this.cx, request);
    if (this.#stopped) throw cancelled();
    const promptEnd = engine.start(JSON.stringify(fitted ? fitted.request : request), held?.next);
    held?.begin(promptEnd);
    const reader = readerOf(promptEnd);
    // A signal that fired meanwhile had nothing to stop.
    if (this.#stopped || this.signal?.aborted) this.#cancel();
    let calls = false;
    // How likely tokens were is told with what they, or the ones behind them, add to the answer.
    let likely: WasmLikely[] = [];
    const tell = (deltas: Delta[]) => {
      if (this.#over) return; // nobody reads on
      for (const delta of deltas) {
        if ('text' in delta) this.#text += delta.text;
        calls ||= 'call' in delta;
        this.#unread.push({ index, likely, delta });
        likely = [];
      }
    };
    for (;;) {
      const event = JSON.parse(await engine.nextEvent()) as WasmEvent;
      likely.push(...event.logprobs ?? []);
      if (event.type !== 'done') {
        tell(reader.push(event.text, event.type === 'control'));
      } else {
        if (event.reason === 'cancelled') throw cancelled(undefined, this.#text);
        tell(reader.end());
        this.#count(usage, event, counts, started);
        if (fitted) fitted.count(usage, event.leftOut);
        const last = index === this.asked.length - 1;
        const reason = event.reason === 'stop' && calls ? 'tool_calls' : event.reason;
        this.#unread.push({ index, likely, reason, usage: last ? usage : undefined });
        if (last) return;
      }
      this.#wake();
      await this.#rest();
      if (event.type === 'done') return;
    }
  }

  #count(usage: Usage, event: WasmEvent & { type: 'done' }, counts: boolean, started: number): void {
    if (counts) usage.prompt_tokens += event.promptTokens;
    usage.completion_tokens += event.completionTokens;
    usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
    if (event.tokensPerPass) usage.tokens_per_pass = [...(usage.tokens_per_pass ?? []), ...event.tokensPerPass];
    if (!event.speed) return;
    const { firstTokenMs, prefillTokensPerSecond, decodeTokensPerSecond } = event.speed;
    const first = firstTokenMs === null ? null : (started - this.since + firstTokenMs) / 1000;
    usage.extra = {
      e2e_latency_s: (this.cx.platform.now() - this.since) / 1000,
      time_to_first_token_s: usage.extra?.time_to_first_token_s ?? first,
      prefill_tokens_per_s: prefillTokensPerSecond,
      decode_tokens_per_s: decodeTokensPerSecond,
    };
  }

  /** Gives the page its turn, if it had none for a while. */
  async #rest(): Promise<void> {
    const { platform } = this.cx;
    if (platform.now() - this.#sliceStart <= SLICE_MS) return;
    await platform.yieldToPage();
    this.#sliceStart = platform.now();
  }
}
