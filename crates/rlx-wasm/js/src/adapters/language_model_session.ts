/** A session of the Prompt API: a conversation with an engine's model. */

import { RlxError } from '../error.js';
import type { ChatRequest, ToolCall } from '../openai/types.js';
import type { ChatEngine, Settings } from './engine.js';
import { notSupported, quotaExceeded, toFault, toMessages } from './language_model_input.js';
import type { LanguageModelPrompt, TextMessage } from './language_model_input.js';
import { unless } from './language_model_source.js';
import { NO_TOOLS } from './language_model_tools.js';
import type { Tools } from './language_model_tools.js';

export interface LanguageModelPromptOptions {
  /** The form of the answer: a JSON schema, or a regular expression without look-around that matches it as a whole. */
  responseConstraint?: object;
  /** Do not tell the model of it. */
  omitResponseConstraintInput?: boolean;
  signal?: AbortSignal;
}

export type SamplingMode =
  | 'most-predictable' | 'predictable' | 'slightly-predictable' | 'balanced' | 'slightly-creative' | 'creative' | 'most-creative';

/** How a session samples: what it was asked for, and what the engine gets. */
export interface Sampling {
  temperature?: number | undefined;
  topK?: number | undefined;
  mode: SamplingMode | null;
  settings: Settings;
}

/** An engine that several sessions use. */
export interface SharedEngine {
  engine: ChatEngine;
  /** Gives the engine back. */
  release(): void;
  /** One more user of the engine, for a clone. */
  share(signal: AbortSignal): Promise<SharedEngine>;
}

/** What a session has. */
export interface SessionState extends SharedEngine {
  sampling: Sampling;
  tools: Tools;
  /** Never dropped. */
  initial: readonly TextMessage[];
  /** The rest of the conversation. */
  rest: readonly TextMessage[];
  /** Tokens of both. */
  usage: number;
}

type Handler = ((event: Event) => void) | null;

export class LanguageModel extends EventTarget {
  readonly #state: SessionState;
  readonly #end = new AbortController();
  /** The last call; calls run one after another. */
  #last: Promise<unknown> = Promise.resolve();
  oncontextoverflow: Handler = null;
  /** The former name of `oncontextoverflow`. */
  onquotaoverflow: Handler = null;

  /** @internal */
  constructor(state: SessionState) {
    super();
    // The web's own class cannot be constructed by pages either.
    if (!state?.release) throw new TypeError('Illegal constructor');
    this.#state = state;
    this.#end.signal.addEventListener('abort', () => state.release(), { once: true });
  }

  /** Tokens that the conversation has. */
  get contextUsage(): number {
    return this.#state.usage;
  }

  /** Most tokens of the conversation, answers included. */
  get contextWindow(): number {
    return this.#state.engine.info().contextLength;
  }

  /** The former name of `contextUsage`. */
  get inputUsage(): number {
    return this.contextUsage;
  }

  /** The former name of `contextWindow`. */
  get inputQuota(): number {
    return this.contextWindow;
  }

  /** The temperature that the session was created with; else the model's own is used. */
  get temperature(): number | undefined {
    return this.#state.sampling.temperature;
  }

  get topK(): number | undefined {
    return this.#state.sampling.topK;
  }

  /** Null if the session was created with `temperature` or `topK`. */
  get samplingMode(): SamplingMode | null {
    return this.#state.sampling.mode;
  }

  /** The whole answer to an input. Both are then part of the conversation. */
  async prompt(input: LanguageModelPrompt, options: LanguageModelPromptOptions = {}): Promise<string> {
    let answer = '';
    await this.#answer(input, options, this.#signal(options), (text) => {
      answer += text;
    });
    return answer;
  }

  /** As `prompt`, in pieces as they come. It begins at once, however late the stream is read; leaving the stream stops it. */
  promptStreaming(input: LanguageModelPrompt, options: LanguageModelPromptOptions = {}): ReadableStream<string> {
    const leave = new AbortController();
    const signal = AbortSignal.any([this.#signal(options), leave.signal]);
    return new ReadableStream<string>({
      start: (out) => {
        this.#answer(input, options, signal, (text) => {
          if (!leave.signal.aborted) out.enqueue(text);
        }).then(
          () => {
            if (!leave.signal.aborted) out.close();
          },
          (error: unknown) => out.error(error),
        );
      },
      cancel: () => leave.abort(),
    });
  }

  /** Adds messages to the conversation without an answer. */
  async append(input: LanguageModelPrompt, options: { signal?: AbortSignal } = {}): Promise<void> {
    const signal = this.#signal(options);
    const done = await this.#turn(signal);
    try {
      const { messages, usage } = await this.#fit(input, signal);
      this.#add(messages, usage);
    } catch (error) {
      throw toFault(error, signal);
    } finally {
      done();
    }
  }

  /** How many tokens an input would add to the conversation. */
  async measureContextUsage(input: LanguageModelPrompt, options: LanguageModelPromptOptions = {}): Promise<number> {
    const signal = this.#signal(options);
    signal.throwIfAborted();
    checkConstraint(options);
    const { initial, rest, usage } = this.#state;
    try {
      const whole = await this.#count([...initial, ...rest, ...withConstraint(toMessages(input, false), options)]);
      signal.throwIfAborted();
      return Math.max(0, whole - usage);
    } catch (error) {
      throw toFault(error, signal);
    }
  }

  /** The former name of `measureContextUsage`. */
  measureInputUsage(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<number> {
    return this.measureContextUsage(input, options);
  }

  /** A session with the same conversation, which goes on by itself. */
  async clone({ signal }: { signal?: AbortSignal } = {}): Promise<LanguageModel> {
    const ends = this.#signal({ signal });
    ends.throwIfAborted();
    const shared = await this.#state.share(ends);
    return new (this.constructor as typeof LanguageModel)({ ...this.#state, ...shared });
  }

  /** Ends the session and its calls. The model's memory is freed some time after its last session. */
  destroy(): void {
    this.endWith(new DOMException('the session was destroyed', 'AbortError'));
  }

  /** @internal */
  endWith(reason: unknown): void {
    this.#end.abort(reason);
  }

  #signal({ signal }: { signal?: AbortSignal | undefined }): AbortSignal {
    return signal ? AbortSignal.any([this.#end.signal, signal]) : this.#end.signal;
  }

  /** Waits for this session's earlier calls; what it resolves to ends the turn. */
  async #turn(signal: AbortSignal): Promise<() => void> {
    const before = this.#last;
    let done = () => {};
    const turn = new Promise<void>((resolve) => {
      done = resolve;
    });
    this.#last = before.then(() => turn);
    try {
      await unless(signal, before);
      return done;
    } catch (error) {
      done();
      throw error;
    }
  }

  async #answer(
    input: LanguageModelPrompt, options: LanguageModelPromptOptions, signal: AbortSignal, heard: (text: string) => void,
  ): Promise<void> {
    const done = await this.#turn(signal);
    try {
      checkConstraint(options);
      const { messages } = await this.#fit(input, signal, options);
      const form = formOf(options);
      // Each turn has more messages, so that a model that calls without end fills its window.
      let said: TextMessage[] = messages;
      for (let more = true; more;) ({ said, more } = await this.#say(said, form, signal, heard));
    } catch (error) {
      const full = error instanceof RlxError && error.code === 'context_full' && !signal.aborted;
      throw full ? quotaExceeded(this.contextWindow + 1, this.contextWindow) : toFault(error, signal);
    } finally {
      done();
    }
  }

  /** What the model says next: its answer, or calls with their results, after which there is more to say. */
  async #say(
    messages: TextMessage[], form: Partial<ChatRequest>, signal: AbortSignal, heard: (text: string) => void,
  ): Promise<{ said: TextMessage[]; more: boolean }> {
    const { engine, sampling, tools, initial, rest } = this.#state;
    const chunks = await engine.chat.completions.create({
      ...sampling.settings, ...form, ...(tools.told.length > 0 && { tools: tools.told }), messages: [...initial, ...rest, ...messages], signal, stream: true,
    });
    let content = '';
    let thought = false;
    let total = 0;
    const calls: ToolCall[] = [];
    for await (const { choices, usage } of chunks) {
      const { delta } = choices[0]!;
      thought ||= delta.reasoning_content !== undefined;
      for (const { index: _, ...call } of delta.tool_calls ?? []) calls.push(call);
      if (delta.content) {
        content += delta.content;
        heard(delta.content);
      }
      if (usage) total = usage.total_tokens;
    }
    const said: TextMessage[] = [...messages, { role: 'assistant', content, ...(calls.length > 0 && { tool_calls: calls }) }];
    if (calls.length > 0) return { said: [...said, ...await unless(signal, tools.run(calls))], more: true };
    // Thoughts are no part of the conversation. The last token of an answer that fills the window counts, but needs no place in it.
    if (thought) total = await this.#count([...initial, ...rest, ...said]);
    this.#add(said, Math.min(total, this.contextWindow));
    return { said, more: false };
  }

  /** The input as messages, after as many of the oldest were dropped as they need room. */
  async #fit(input: LanguageModelPrompt, signal: AbortSignal, options: LanguageModelPromptOptions = {}): Promise<{ messages: TextMessage[]; usage: number }> {
    const { initial } = this.#state;
    let { rest } = this.#state;
    const messages = withConstraint(toMessages(input, initial.length + rest.length > 0), options);
    const window = this.contextWindow;
    const first = await this.#count([...initial, ...rest, ...messages]);
    let usage = first;
    while (usage > window && rest.length > 0) {
      // One pair of a prompt and its answer, with what was called between them.
      rest = rest.slice(rest.findIndex(({ role, tool_calls }) => role === 'assistant' && !tool_calls) + 1 || 1);
      usage = await this.#count([...initial, ...rest, ...messages]);
    }
    signal.throwIfAborted();
    if (usage > window) throw quotaExceeded(first, window);
    if (rest !== this.#state.rest) {
      this.#state.rest = rest;
      this.#state.usage = await this.#count([...initial, ...rest]);
      this.#overflow('contextoverflow', this.oncontextoverflow);
      this.#overflow('quotaoverflow', this.onquotaoverflow);
    }
    return { messages, usage };
  }

  #add(messages: readonly TextMessage[], usage: number): void {
    this.#state.rest = [...this.#state.rest, ...messages];
    this.#state.usage = usage;
  }

  #count(messages: readonly TextMessage[]): Promise<number> {
    return countTokens(this.#state.engine, messages, this.#state.tools);
  }

  #overflow(type: string, handler: Handler): void {
    const event = new Event(type);
    this.dispatchEvent(event);
    handler?.call(this, event);
  }
}

/**
 * The tokens of messages in the chat template; of their texts alone, where it does not take them as they are. How the
 * template tells of tools is not known: their JSON is counted.
 */
export async function countTokens(engine: ChatEngine, messages: readonly TextMessage[], { told } = NO_TOOLS): Promise<number> {
  const tools = told.length > 0 ? await engine.countTokens(JSON.stringify(told)) : 0;
  if (messages.length === 0) return tools;
  try {
    return tools + await engine.countTokens(messages);
  } catch (error) {
    // Such as a system's message alone: more will come.
    if (!(error instanceof RlxError) || error.code !== 'usage') throw error;
    const counts = await Promise.all(messages.map(({ content }) => engine.countTokens(content)));
    return counts.reduce((sum, count) => sum + count, tools);
  }
}

function checkConstraint({ responseConstraint, omitResponseConstraintInput = false }: LanguageModelPromptOptions): void {
  if (responseConstraint !== undefined && (typeof responseConstraint !== 'object' || responseConstraint === null)) {
    throw new TypeError('responseConstraint must be a JSON schema or a RegExp');
  }
  // The other flags are of how a text is searched.
  if (responseConstraint instanceof RegExp && /[ims]/.test(responseConstraint.flags)) throw notSupported(`a RegExp with the flags ${responseConstraint.flags}`);
  if (responseConstraint === undefined && omitResponseConstraintInput) throw new TypeError('omitResponseConstraintInput needs a responseConstraint');
}

/** The constraint as the engine takes it. */
function formOf({ responseConstraint: constraint }: LanguageModelPromptOptions): Partial<ChatRequest> {
  if (constraint === undefined) return {};
  if (constraint instanceof RegExp) return { grammar: { syntax: 'regex', definition: constraint.source } };
  return { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: { ...constraint } } } };
}

/** Tells the model of the constraint, behind what it is asked. */
function withConstraint(messages: TextMessage[], { responseConstraint: constraint, omitResponseConstraintInput: omits }: LanguageModelPromptOptions): TextMessage[] {
  const last = messages.at(-1);
  if (constraint === undefined || omits || !last) return messages;
  const told = constraint instanceof RegExp
    ? `Answer with a text that this regular expression matches: ${constraint.source}`
    : `Answer with JSON of this schema: ${JSON.stringify(constraint)}`;
  return [...messages.slice(0, -1), { ...last, content: `${last.content}\n\n${told}` }];
}
