/**
 * A chat model for LangChain.js (`@langchain/core` 1).
 *
 * ```js
 * import { ChatRlx } from 'rlx-wasm/langchain';
 * const chain = prompt.pipe(new ChatRlx({ engine, temperature: 0 })).pipe(new StringOutputParser());
 * ```
 *
 * Thoughts are in `additional_kwargs.reasoning_content`, of answers and of messages that are sent back. With `logprobs: true`
 * tokens' log probabilities are in `response_metadata.logprobs`, as those of LangChain's OpenAI model.
 */

import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager';
import { ContextOverflowError, LangChainError, ModelAbortError } from '@langchain/core/errors';
import type { BaseLanguageModelInput, StructuredOutputMethodOptions } from '@langchain/core/language_models/base';
import type { BaseChatModelCallOptions, BaseChatModelParams, BindToolsInput } from '@langchain/core/language_models/chat_models';
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import type { ModelProfile } from '@langchain/core/language_models/profile';
import {
  assembleStructuredOutputPipeline, createContentParser, createFunctionCallingParser,
} from '@langchain/core/language_models/structured_output';
import { AIMessageChunk } from '@langchain/core/messages';
import type { BaseMessage, MessageContent } from '@langchain/core/messages';
import type { ChatResult } from '@langchain/core/outputs';
import { ChatGenerationChunk } from '@langchain/core/outputs';
import type { Runnable } from '@langchain/core/runnables';
import { convertToOpenAITool } from '@langchain/core/utils/function_calling';
import { RlxError } from '../error.js';
import type { ChatCompletion, ChatCompletionChunk, ChatRequest, ChatTool } from '../openai/types.js';
import { SETTINGS } from './engine.js';
import type { ChatEngine } from './engine.js';
import { textOf, toAnswer, toMessage } from './langchain_messages.js';
import { describe } from './langchain_structured.js';
import type { OutputSchema } from './langchain_structured.js';

const CALL_SETTINGS = { ...SETTINGS, logprobs: true, top_logprobs: true } as const;

type CallSettings = Pick<ChatRequest, keyof typeof CALL_SETTINGS>;

/** Settings of one call; those that it does not name are the model's. */
export interface ChatRlxCallOptions extends BaseChatModelCallOptions, Omit<CallSettings, 'stop'> {
  /** In OpenAI's shape; `bindTools` makes them of others. */
  tools?: readonly ChatTool[];
}

/** The engine, and the settings of all calls. */
export interface ChatRlxParams extends BaseChatModelParams, CallSettings {
  engine: ChatEngine;
}

/** What may be bound to a model, would change the answer, and is not done; or has no place in an answer of LangChain's. */
const UNSUPPORTED = ['functions', 'function_call', 'n'];

export class ChatRlx extends BaseChatModel<ChatRlxCallOptions> {
  readonly #engine: ChatEngine;
  readonly #settings: CallSettings;

  static override lc_name(): string {
    return 'ChatRlx';
  }

  constructor(fields: ChatRlxParams) {
    super(fields);
    this.#engine = fields.engine;
    this.#settings = settingsOf(fields);
  }

  _llmType(): string {
    return 'rlx';
  }

  /** What a cache of answers tells models apart by. */
  override _identifyingParams(): Record<string, unknown> {
    return { model: this.#engine.info().model.name, ...this.#settings };
  }

  override invocationParams(options?: this['ParsedCallOptions']): Record<string, unknown> {
    return { ...this._identifyingParams(), ...(options && { ...settingsOf(options), ...toolsOf(options) }) };
  }

  override get profile(): ModelProfile {
    return { maxInputTokens: this.#engine.info().contextLength };
  }

  /** The model with functions that it may call; `tool_choice` may force a call. */
  override bindTools(
    tools: BindToolsInput[], kwargs: Partial<ChatRlxCallOptions> = {},
  ): Runnable<BaseLanguageModelInput, AIMessageChunk, ChatRlxCallOptions> {
    return this.withConfig({ ...kwargs, tools: tools.map((tool) => convertToOpenAITool(tool) as ChatTool) });
  }

  /**
   * The model with answers that have a form, and are read. By `method`: `jsonSchema`, which is taken if none is given, holds the
   * answer to the schema; `jsonMode` to JSON; `functionCalling` has the model call a function with such arguments, and needs a
   * model that was made for tools. No method tells the model of the schema but `functionCalling`.
   */
  override withStructuredOutput<Output extends Record<string, any> = Record<string, any>>(
    schema: OutputSchema<Output>, config?: StructuredOutputMethodOptions<false>,
  ): Runnable<BaseLanguageModelInput, Output>;
  override withStructuredOutput<Output extends Record<string, any> = Record<string, any>>(
    schema: OutputSchema<Output>, config?: StructuredOutputMethodOptions<true>,
  ): Runnable<BaseLanguageModelInput, { raw: BaseMessage; parsed: Output }>;
  override withStructuredOutput<Output extends Record<string, any> = Record<string, any>>(
    schema: OutputSchema<Output>, { method = 'jsonSchema', name: given, strict, includeRaw }: StructuredOutputMethodOptions<boolean> = {},
  ) {
    const { name, description, parameters } = describe(schema, given);
    const more = strict === undefined ? {} : { strict };
    const held = (response_format: ChatRequest['response_format']) =>
      assembleStructuredOutputPipeline(this.withConfig({ response_format }), createContentParser<Output>(schema), includeRaw, 'StructuredOutput');
    switch (method) {
      case 'jsonSchema': return held({ type: 'json_schema', json_schema: { name, schema: parameters, ...more } });
      case 'jsonMode': return held({ type: 'json_object' });
      case 'functionCalling': {
        const tool = { type: 'function', function: { name, description, parameters, ...more } };
        const calling = this.bindTools([tool], { tool_choice: name, parallel_tool_calls: false });
        return assembleStructuredOutputPipeline(calling, createFunctionCallingParser<Output>(schema, name), includeRaw, 'StructuredOutput');
      }
      default: throw new LangChainError(`ChatRlx: the method ${method} is none of jsonSchema, jsonMode and functionCalling`);
    }
  }

  /** Counts with the model's own tokenizer. */
  override getNumTokens(content: MessageContent): Promise<number> {
    return this.#engine.countTokens(textOf(content, 'content'));
  }

  async _generate(messages: BaseMessage[], options: this['ParsedCallOptions']): Promise<ChatResult> {
    try {
      const answer = await this.#engine.chat.completions.create({ ...this.#request(messages, options), stream: false });
      const [choice] = answer.choices;
      const { prompt_tokens: promptTokens, completion_tokens: completionTokens, total_tokens: totalTokens } = answer.usage;
      return {
        generations: [{ text: choice!.message.content ?? '', message: toAnswer(answer), generationInfo: infoOf(choice!) }],
        llmOutput: { tokenUsage: { promptTokens, completionTokens, totalTokens } },
      };
    } catch (error) {
      throw toLangChain(error);
    }
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[], options: this['ParsedCallOptions'], runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    try {
      const chunks = await this.#engine.chat.completions.create({ ...this.#request(messages, options), stream: true });
      for await (const part of chunks) {
        const [choice] = part.choices;
        const text = choice!.delta.content ?? '';
        const chunk = new ChatGenerationChunk({ text, message: toAnswer(part), generationInfo: infoOf(choice!) });
        yield chunk;
        await runManager?.handleLLMNewToken(text, undefined, undefined, undefined, undefined, { chunk });
      }
    } catch (error) {
      throw toLangChain(error);
    }
  }

  #request(messages: BaseMessage[], options: this['ParsedCallOptions']): ChatRequest {
    const given = options as Record<string, unknown>;
    for (const key of UNSUPPORTED) {
      if (given[key] !== undefined) throw new LangChainError(`ChatRlx: ${key} is not supported yet`);
    }
    return {
      ...this.#settings,
      ...settingsOf(options),
      ...toolsOf(options),
      messages: messages.map(toMessage),
      ...(options.signal && { signal: options.signal }),
    };
  }
}

/** The settings among other fields. */
function settingsOf(fields: object): CallSettings {
  return Object.fromEntries(Object.entries(fields).filter(([key, value]) => Object.hasOwn(CALL_SETTINGS, key) && value !== undefined));
}

/** What LangChain tells of an answer beside its message, and puts into `response_metadata`; of a stream it joins the chunks'. */
function infoOf({ finish_reason, logprobs }: (ChatCompletion | ChatCompletionChunk)['choices'][number]): Record<string, unknown> {
  return { ...(finish_reason && { finish_reason }), ...(logprobs && { logprobs }) };
}

/** The functions that a call may use. */
function toolsOf({ tools, tool_choice: choice }: ChatRlxCallOptions): Pick<ChatRequest, 'tools' | 'tool_choice'> {
  return { ...(tools && { tools }), ...(choice && { tool_choice: choiceOf(choice) }) };
}

/** LangChain's choices in OpenAI's shape: `any` forces a call, a name that of its function. */
function choiceOf(choice: NonNullable<ChatRlxCallOptions['tool_choice']>): ChatRequest['tool_choice'] {
  if (choice === 'any') return 'required';
  if (typeof choice !== 'string' || choice === 'auto' || choice === 'none' || choice === 'required') return choice as ChatRequest['tool_choice'];
  return { type: 'function', function: { name: choice } };
}

/** LangChain's own error for what it has one for; others stay the engine's. */
function toLangChain(error: unknown): unknown {
  if (!(error instanceof RlxError)) return error;
  if (error.code === 'context_full') return ContextOverflowError.fromError(error);
  if (error.code !== 'cancelled') return error;
  return Object.assign(new ModelAbortError(error.message, new AIMessageChunk(error.text ?? '')), { cause: error });
}
