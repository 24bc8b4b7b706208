/** Messages of LangChain.js as an engine's, and an engine's answers as LangChain's. */

import { LangChainError } from '@langchain/core/errors';
import { AIMessage, AIMessageChunk, ToolMessage } from '@langchain/core/messages';
import type { AIMessageChunkFields, BaseMessage, MessageContent, ToolCallChunk, UsageMetadata } from '@langchain/core/messages';
import type { ChatCompletion, ChatCompletionChunk, ChatMessage, ToolCall, Usage } from '../openai/types.js';

const ROLES: { [type: string]: ChatMessage['role'] } = { system: 'system', human: 'user', ai: 'assistant', tool: 'tool' };

export function toMessage(message: BaseMessage, i: number): ChatMessage {
  const { type, content, name } = message;
  const at = `messages[${i}]`;
  const role = ROLES[type];
  if (!role) throw new LangChainError(`ChatRlx: messages of type ${type} are not supported (${at})`);
  return {
    role,
    content: textOf(content, at),
    ...(name !== undefined && { name }),
    ...(AIMessage.isInstance(message) && answerOf(message)),
    ...(ToolMessage.isInstance(message) && { tool_call_id: message.tool_call_id }),
  };
}

/** What an earlier answer has besides its text. */
function answerOf({ tool_calls = [], invalid_tool_calls = [], additional_kwargs }: AIMessage): Partial<ChatMessage> {
  const calls = [
    ...tool_calls.map(({ id = '', name, args }) => toCall(id, name, JSON.stringify(args))),
    ...invalid_tool_calls.map(({ id = '', name = '', args = '' }) => toCall(id, name, args)),
  ];
  const { reasoning_content: thoughts } = additional_kwargs;
  return { ...(calls.length > 0 && { tool_calls: calls }), ...(typeof thoughts === 'string' && { reasoning_content: thoughts }) };
}

const toCall = (id: string, name: string, args: string): ToolCall => ({ id, type: 'function', function: { name, arguments: args } });

export function textOf(content: MessageContent, at: string): string {
  if (typeof content === 'string') return content;
  return content.map((block) => {
    if (block.type === 'text' && typeof block.text === 'string') return block.text;
    // A message of the standard form has its calls in both places.
    if (block.type === 'tool_call') return '';
    throw new LangChainError(`ChatRlx: content of type ${block.type} is not supported (${at})`);
  }).join('');
}

/** The message of an answer, or the part of it that a chunk has. LangChain reads structured output of `AIMessageChunk` alone. */
export function toAnswer({ id, model, choices, usage }: ChatCompletion | ChatCompletionChunk): AIMessageChunk {
  const choice = choices[0]!;
  const { content, reasoning_content: thoughts, tool_calls: calls = [] } = 'message' in choice ? choice.message : choice.delta;
  return new AIMessageChunk(fieldsOf({
    id,
    content: content ?? '',
    tool_call_chunks: calls.map(toChunk),
    ...(thoughts !== undefined && { additional_kwargs: { reasoning_content: thoughts } }),
    ...(usage && { usage_metadata: toUsage(usage) }),
    ...(choice.finish_reason && { response_metadata: { model_name: model } }),
  }));
}

const toChunk = ({ id, function: { name, arguments: args }, index }: ToolCall & { index?: number }, i: number): ToolCallChunk =>
  ({ type: 'tool_call_chunk', id, name, args, index: index ?? i });

/** Fields of a message: under `exactOptionalPropertyTypes` LangChain's type allows no usage. */
const fieldsOf = (fields: { [key in keyof AIMessageChunkFields]: unknown }) => fields as AIMessageChunkFields;

const toUsage = ({ prompt_tokens, completion_tokens, total_tokens }: Usage): UsageMetadata =>
  ({ input_tokens: prompt_tokens, output_tokens: completion_tokens, total_tokens });
