/**
 * A chat model for LangChain.js (`@langchain/core` 1).
 *
 * ```js
 * import { ChatRlx } from 'rlx-wasm/langchain';
 * const chain = prompt.pipe(new ChatRlx({ engine, temperature: 0 })).pipe(new StringOutputParser());
 * ```
 */

import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager';
import { ContextOverflowError, LangChainError, ModelAbortError } from '@langchain/core/errors';
import type { BaseChatModelCallOptions, BaseChatModelParams } from '@langchain/core/language_models/chat_models';
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import type { ModelProfile } from '@langchain/core/language_models/profile';
import { AIMessage, AIMessageChunk } from '@langchain/core/messages';
import type { AIMessageFields, BaseMessage, MessageContent, UsageMetadata } from '@langchain/core/messages';
import type { ChatResult } from '@langchain/core/outputs';
import { ChatGenerationChunk } from '@langchain/core/outputs';
import { RlxError } from '../error.js';
import type { ChatMessage, ChatRequest, Usage } from '../openai/types.js';
import { SETTINGS } from './engine.js';
import type { ChatEngine, Settings } from './engine.js';

/** Settings of one call; those that it does not name are the model's. */
export interface ChatRlxCallOptions extends BaseChatModelCallOptions, Omit<Settings, 'stop'> {}

/** The engine, and the settings of all calls. */
export interface ChatRlxParams extends BaseChatModelParams, Settings {
  engine: ChatEngine;
}

/** What is bound to a model for tools and structured output, and would change the answer. */
const UNSUPPORTED = ['tools', 'tool_choice', 'functions', 'function_call', 'response_format'];

const ROLES: { [type: string]: ChatMessage['role'] } = { system: 'system', human: 'user', ai: 'assistant' };

export class ChatRlx extends BaseChatModel<ChatRlxCallOptions> {
  readonly #engine: ChatEngine;
  readonly #settings: Settings;

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
    return { ...this._identifyingParams(), ...(options && settingsOf(options)) };
  }

  override get profile(): ModelProfile {
    return { maxInputTokens: this.#engine.info().contextLength };
  }

  /** Counts with the model's own tokenizer. */
  override getNumTokens(content: MessageContent): Promise<number> {
    return this.#engine.countTokens(textOf(content, 'content'));
  }

  async _generate(messages: BaseMessage[], options: this['ParsedCallOptions']): Promise<ChatResult> {
    try {
      const { id, model, choices, usage } = await this.#engine.chat.completions.create(
        { ...this.#request(messages, options), stream: false },
      );
      const { message, finish_reason } = choices[0]!;
      const text = message.content ?? '';
      return {
        generations: [{
          text,
          message: new AIMessage(fieldsOf({
            id, content: text, usage_metadata: toUsage(usage), response_metadata: { model_name: model },
          })),
          generationInfo: { finish_reason },
        }],
        llmOutput: { tokenUsage: { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens, totalTokens: usage.total_tokens } },
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
      for await (const { id, model, choices, usage } of chunks) {
        const { delta, finish_reason } = choices[0]!;
        const text = delta.content ?? '';
        const chunk = new ChatGenerationChunk({
          text,
          message: new AIMessageChunk(fieldsOf({
            id,
            content: text,
            ...(usage && { usage_metadata: toUsage(usage) }),
            ...(finish_reason && { response_metadata: { model_name: model } }),
          })),
          ...(finish_reason && { generationInfo: { finish_reason } }),
        });
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
      messages: messages.map(toMessage),
      ...(options.signal && { signal: options.signal }),
    };
  }
}

interface Fields {
  id: string;
  content: string;
  usage_metadata?: UsageMetadata;
  response_metadata?: { model_name: string };
}

/** Fields of a message of the model: under `exactOptionalPropertyTypes` LangChain's type allows no usage. */
const fieldsOf = (fields: Fields): AIMessageFields => fields as object as AIMessageFields;

/** The settings among other fields. */
function settingsOf(fields: object): Settings {
  return Object.fromEntries(Object.entries(fields).filter(([key, value]) => key in SETTINGS && value !== undefined));
}

function toMessage(message: BaseMessage, i: number): ChatMessage {
  const { type, content } = message;
  const at = `messages[${i}]`;
  const role = ROLES[type];
  if (!role) throw new LangChainError(`ChatRlx: messages of type ${type} are not supported (${at})`);
  if (AIMessage.isInstance(message) && message.tool_calls?.length) throw new LangChainError(`ChatRlx: tool calls are not supported yet (${at})`);
  return { role, content: textOf(content, at) };
}

function textOf(content: MessageContent, at: string): string {
  if (typeof content === 'string') return content;
  return content.map((block) => {
    if (block.type === 'text' && typeof block.text === 'string') return block.text;
    throw new LangChainError(`ChatRlx: content of type ${block.type} is not supported (${at})`);
  }).join('');
}

const toUsage = ({ prompt_tokens, completion_tokens, total_tokens }: Usage): UsageMetadata =>
  ({ input_tokens: prompt_tokens, output_tokens: completion_tokens, total_tokens });

/** LangChain's own error for what it has one for; others stay the engine's. */
function toLangChain(error: unknown): unknown {
  if (!(error instanceof RlxError)) return error;
  if (error.code === 'context_full') return ContextOverflowError.fromError(error);
  if (error.code !== 'cancelled') return error;
  return Object.assign(new ModelAbortError(error.message, new AIMessageChunk(error.text ?? '')), { cause: error });
}
