/** `engine.chat.completions`: checks a request, runs it in its turn, formats the answer. */

import { cancelled, RlxError, toRlxError, withText } from './error.js';
import type { Queue } from './queue.js';
import type {
  ChatCompletion, ChatCompletionChunk, ChatMessage, ChatRequest, Completions, FinishReason, Usage,
} from './types.js';
import type { Platform, WasmEngine, WasmEvent, WasmRequest } from './wasm.js';

/**
 * If the page had no turn for this long, the next event waits for one: the CPU executor may work up to 40 ms
 * on an event, and the page must not be blocked for more than 50.
 */
const SLICE_MS = 4;

const REQUEST_KEYS: { [key in keyof Required<ChatRequest>]: true } = {
  messages: true, stream: true, model: true, max_tokens: true, temperature: true, top_p: true,
  top_k: true, min_p: true, repetition_penalty: true, frequency_penalty: true,
  presence_penalty: true, seed: true, steps: true, threshold: true, editing_threshold: true,
  max_post_steps: true, stop: true, signal: true,
};

function usage(what: string, at: string): RlxError {
  return new RlxError('usage', what, { at });
}

/** A number within its range; `above` excludes the lower end. */
function number(
  request: ChatRequest,
  key: 'max_tokens' | 'temperature' | 'top_p' | 'top_k' | 'min_p' | 'repetition_penalty'
    | 'frequency_penalty' | 'presence_penalty' | 'seed' | 'steps' | 'threshold' | 'editing_threshold'
    | 'max_post_steps',
  range: { min: number; max: number; above?: boolean; whole?: boolean; text: string },
): number | undefined {
  const value: unknown = request[key];
  if (value === undefined || value === null) return undefined;
  const fits = typeof value === 'number' && value >= range.min && value <= range.max
    && !(range.above && value === range.min) && !(range.whole && !Number.isInteger(value));
  if (!fits) throw usage(`${key} is ${String(value)}, it must be ${range.text}`, key);
  return value;
}

/** Checks the messages of a conversation. */
export function checkMessages(messages: unknown): ChatMessage[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw usage('messages must be an array of at least one message', 'messages');
  }
  return messages.map((message: unknown, i): ChatMessage => {
    const { role, content } = (message ?? {}) as { role?: unknown; content?: unknown };
    if (role !== 'system' && role !== 'user' && role !== 'assistant') {
      throw usage(`role is ${String(role)}, it must be system, user or assistant`, `messages[${i}]`);
    }
    if (typeof content !== 'string') throw usage('content must be a text', `messages[${i}]`);
    return { role, content };
  });
}

/** Checks a request, except what needs the tokenizer, and fills in defaults. */
export function checkRequest(request: ChatRequest): WasmRequest {
  for (const key of Object.keys(request)) {
    if (!(key in REQUEST_KEYS)) throw usage(`${key} is not a parameter of create`, key);
  }
  const checked = checkMessages(request.messages);
  const stop: unknown = request.stop ?? [];
  const stops: readonly unknown[] = Array.isArray(stop) ? stop : [stop];
  if (stops.length > 16 || stops.some((text) => typeof text !== 'string' || text === '')) {
    throw usage('stop must be at most 16 texts, none of them empty', 'stop');
  }
  const whole = (min: number, text: string) => ({ min, max: Number.MAX_SAFE_INTEGER, whole: true, text });
  const share = { min: 0, max: 1, text: 'from 0 to 1' };
  const penalty = { min: -2, max: 2, text: 'from -2 to 2' };
  return {
    messages: checked,
    max_tokens: number(request, 'max_tokens', whole(1, 'a whole number, 1 or more')) ?? null,
    temperature: number(request, 'temperature', { min: 0, max: 2, text: 'from 0 to 2' }) ?? null,
    top_p: number(request, 'top_p', { min: 0, max: 1, above: true, text: 'above 0 and at most 1' }) ?? 1,
    top_k: number(request, 'top_k', whole(0, 'a whole number, 0 or more')) ?? 0,
    min_p: number(request, 'min_p', { min: 0, max: 1, text: 'from 0 to 1' }) ?? 0,
    repetition_penalty: number(request, 'repetition_penalty', { min: 0, max: 2, above: true, text: 'above 0 and at most 2' }) ?? 1,
    frequency_penalty: number(request, 'frequency_penalty', penalty) ?? 0,
    presence_penalty: number(request, 'presence_penalty', penalty) ?? 0,
    seed: number(request, 'seed', whole(0, 'a whole number from 0 to 2^53 - 1')) ?? randomSeed(),
    steps: number(request, 'steps', { min: 1, max: 2 ** 32 - 1, whole: true, text: 'a whole number, 1 or more' }) ?? null,
    threshold: number(request, 'threshold', share) ?? null,
    editing_threshold: number(request, 'editing_threshold', share) ?? null,
    max_post_steps: number(request, 'max_post_steps', { min: 0, max: 1024, whole: true, text: 'a whole number from 0 to 1024' }) ?? null,
    stop: stops as string[],
  };
}

function randomSeed(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0]!;
}

/** The part of the engine that calls use. After `dispose` each method throws or rejects with `disposed`. */
export interface ChatContext {
  engine: Pick<WasmEngine, 'start' | 'nextEvent' | 'cancel'>;
  queue: Queue;
  platform: Platform;
  modelName: string;
}

interface Finish {
  reason: FinishReason;
  usage: Usage;
}

/**
 * A running call. It runs as fast as the device gives tokens and buffers unread text, so that a reader who is
 * slow or stops reading does not delay the calls in the queue.
 */
class Call {
  /** Settles when the engine is free for the next call; never rejects. */
  readonly ended: Promise<void>;
  #unread: string[] = [];
  #result: { finish: Finish } | { error: RlxError } | undefined;
  #wake: () => void = () => {};

  constructor(
    private readonly cx: ChatContext,
    request: WasmRequest,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.ended = this.#run(request);
  }

  /** The next text, or how the call finished; throws its error after all texts. One reader at a time. */
  async next(): Promise<{ text: string } | { finish: Finish }> {
    for (;;) {
      const text = this.#unread.shift();
      if (text !== undefined) return { text };
      if (this.#result && 'error' in this.#result) throw this.#result.error;
      if (this.#result) return this.#result;
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }

  /** Stops the answer; resolves when the engine is idle. */
  stop(): Promise<void> {
    if (!this.#result) this.cx.engine.cancel();
    return this.ended;
  }

  async #run(request: WasmRequest): Promise<void> {
    const { engine, platform } = this.cx;
    const cancel = () => engine.cancel();
    let text = '';
    try {
      engine.start(JSON.stringify(request));
      this.signal?.addEventListener('abort', cancel, { once: true });
      if (this.signal?.aborted) cancel();
      let sliceStart = platform.now();
      while (!this.#result) {
        const event = JSON.parse(await engine.nextEvent()) as WasmEvent;
        if (event.type === 'text') {
          text += event.text;
          this.#unread.push(event.text);
        } else if (event.reason === 'cancelled') {
          throw cancelled(undefined, text);
        } else {
          const prompt_tokens = event.promptTokens;
          const completion_tokens = event.completionTokens;
          const passes = event.tokensPerPass ? { tokens_per_pass: event.tokensPerPass } : {};
          const total_tokens = prompt_tokens + completion_tokens;
          this.#result = { finish: { reason: event.reason, usage: { prompt_tokens, completion_tokens, total_tokens, ...passes } } };
        }
        this.#wake();
        if (!this.#result && platform.now() - sliceStart > SLICE_MS) {
          await platform.yieldToPage();
          sliceStart = platform.now();
        }
      }
    } catch (thrown) {
      const error = toRlxError(thrown);
      this.#result = { error: error.text === undefined && text !== '' ? withText(error, text) : error };
      this.#wake();
    } finally {
      this.signal?.removeEventListener('abort', cancel);
    }
  }
}

function head(modelName: string): { id: string; created: number; model: string } {
  const id = [...crypto.getRandomValues(new Uint8Array(12))]
    .map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return { id: `chatcmpl-${id}`, created: Math.floor(Date.now() / 1000), model: modelName };
}

/** The call as chunks. Leaving the loop early (`return`) stops the answer. */
function stream(modelName: string, call: Call): AsyncIterableIterator<ChatCompletionChunk> {
  const common = { ...head(modelName), object: 'chat.completion.chunk' as const };
  let first = true;
  let over = false;
  const read = async (): Promise<IteratorResult<ChatCompletionChunk>> => {
    if (over) return { value: undefined, done: true };
    try {
      const step = await call.next();
      if ('text' in step) {
        const delta = first ? { role: 'assistant' as const, content: step.text } : { content: step.text };
        first = false;
        return { value: { ...common, choices: [{ index: 0, delta, finish_reason: null }] }, done: false };
      }
      over = true;
      const { reason, usage } = step.finish;
      return { value: { ...common, choices: [{ index: 0, delta: {}, finish_reason: reason }], usage }, done: false };
    } catch (error) {
      over = true;
      throw error;
    }
  };
  let last: Promise<unknown> = Promise.resolve();
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    // A reader may ask for several chunks at once; they are read one after another, as in a generator.
    next() {
      const chunk = last.then(read, read);
      last = chunk;
      return chunk;
    },
    async return() {
      over = true;
      await call.stop();
      return { value: undefined, done: true };
    },
  };
}

async function whole(modelName: string, call: Call): Promise<ChatCompletion> {
  let content = '';
  for (;;) {
    const step = await call.next();
    if ('text' in step) {
      content += step.text;
      continue;
    }
    const { reason, usage } = step.finish;
    return {
      ...head(modelName),
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: reason }],
      usage,
    };
  }
}

export function completions(cx: ChatContext): Completions {
  const create = async (request: ChatRequest) => {
    const checked = checkRequest(request);
    const release = await cx.queue.turn(request.signal);
    const call = new Call(cx, checked, request.signal);
    void call.ended.then(release);
    return request.stream ? stream(cx.modelName, call) : whole(cx.modelName, call);
  };
  return { create: create as Completions['create'] };
}
