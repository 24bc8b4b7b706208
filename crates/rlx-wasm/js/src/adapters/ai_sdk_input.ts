/** Calls of Vercel's AI SDK as an engine's requests. */

import { UnsupportedFunctionalityError } from '@ai-sdk/provider';
import type {
  LanguageModelV4CallOptions, LanguageModelV4Message, LanguageModelV4ToolResultOutput, SharedV4Warning,
} from '@ai-sdk/provider';
import type { ChatMessage, ChatRequest, ChatTool, ToolCall } from '../openai/types.js';

/** The name of ours in `providerOptions`. */
export const PROVIDER = 'rlx';

export const unsupported = (functionality: string, message: string) =>
  new UnsupportedFunctionalityError({ functionality, message: `rlx: ${message}` });

/** What of a request `providerOptions` may not have: the SDK's own options say it, or its answers have no place for it. */
const NOT_OPTIONS: readonly string[] = [
  'messages', 'tools', 'tool_choice', 'response_format', 'n', 'stream', 'stream_options', 'signal', 'logprobs', 'top_logprobs',
];

type Content<Role> = Extract<LanguageModelV4Message, { role: Role }>['content'];
type Whole = ChatRequest & { stream: false };

/** The engine's request for a call, and warnings of what the engine does not heed. */
export function toRequest(options: LanguageModelV4CallOptions): { request: Whole; warnings: SharedV4Warning[] } {
  const { responseFormat, toolChoice, reasoning, providerOptions } = options;
  const more = providerOptions?.[PROVIDER] ?? {};
  for (const key of NOT_OPTIONS) {
    if (more[key] !== undefined) throw unsupported(`providerOptions.${PROVIDER}.${key}`, `${key} is no option of the provider`);
  }
  const warnings: SharedV4Warning[] = [];
  const settings: Partial<ChatRequest> = {
    max_tokens: options.maxOutputTokens,
    temperature: options.temperature,
    top_p: options.topP,
    top_k: options.topK,
    presence_penalty: options.presencePenalty,
    frequency_penalty: options.frequencyPenalty,
    seed: options.seed,
    stop: options.stopSequences,
    reasoning_effort: reasoning === 'provider-default' ? undefined : reasoning,
    tools: options.tools?.map((tool) => toTool(tool, warnings)),
    tool_choice: toolChoice?.type === 'tool' ? { type: 'function', function: { name: toolChoice.toolName } } : toolChoice?.type,
    response_format: responseFormat?.type === 'json' ? formatOf(responseFormat) : undefined,
    signal: options.abortSignal,
  };
  const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
  return { request: { ...more, ...given, messages: options.prompt.flatMap(toMessages), stream: false }, warnings };
}

/** JSON of a schema, or any. */
function formatOf({ schema, name = 'answer' }: { schema?: object; name?: string }): ChatRequest['response_format'] {
  return schema ? { type: 'json_schema', json_schema: { name, schema: { ...schema } } } : { type: 'json_object' };
}

function toTool(tool: NonNullable<LanguageModelV4CallOptions['tools']>[number], warnings: SharedV4Warning[]): ChatTool {
  if (tool.type !== 'function') throw unsupported(`tool ${tool.id}`, `the provider has no tool ${tool.id}`);
  const { name, description, inputSchema, inputExamples, strict } = tool;
  if (inputExamples?.length) warnings.push({ type: 'unsupported', feature: 'inputExamples', details: `the model is not told the examples of ${name}` });
  return { type: 'function', function: { name, description, parameters: inputSchema as { [key: string]: unknown }, strict } };
}

function toMessages(message: LanguageModelV4Message): ChatMessage[] {
  switch (message.role) {
    case 'system': return [{ role: 'system', content: message.content }];
    case 'user': return [{ role: 'user', content: message.content.map(textOf).join('') }];
    case 'assistant': return [toAnswer(message.content)];
    case 'tool': return message.content.map(toResult);
  }
}

function textOf(part: Content<'user'>[number]): string {
  if (part.type === 'text') return part.text;
  throw unsupported(`${part.type} parts`, `user messages with ${part.type} parts are not supported`);
}

/** An earlier answer, with its thoughts and calls. */
function toAnswer(content: Content<'assistant'>): ChatMessage {
  let [text, thoughts]: [string, string] = ['', ''];
  const calls: ToolCall[] = [];
  for (const part of content) {
    if (part.type === 'text') text += part.text;
    else if (part.type === 'reasoning') thoughts += part.text;
    else if (part.type === 'tool-call' && !part.providerExecuted) {
      calls.push({ id: part.toolCallId, type: 'function', function: { name: part.toolName, arguments: JSON.stringify(part.input ?? {}) } });
    } else {
      throw unsupported(`${part.type} parts`, `assistant messages with ${part.type} parts ${part.type === 'tool-call' ? 'that the provider executed ' : ''}are not supported`);
    }
  }
  return {
    role: 'assistant',
    content: text,
    ...(thoughts !== '' && { reasoning_content: thoughts }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function toResult(part: Content<'tool'>[number]): ChatMessage {
  // The SDK's approvals of its own tools do not reach providers.
  if (part.type !== 'tool-result') throw unsupported(`${part.type} parts`, `tool messages with ${part.type} parts are not supported`);
  return { role: 'tool', tool_call_id: part.toolCallId, name: part.toolName, content: outputOf(part.output) };
}

function outputOf(output: LanguageModelV4ToolResultOutput): string {
  switch (output.type) {
    case 'text':
    case 'error-text': return output.value;
    case 'json':
    case 'error-json': return JSON.stringify(output.value);
    case 'execution-denied': return output.reason ?? 'The call was denied.';
    case 'content': return output.value.map((part) => {
      if (part.type === 'text') return part.text;
      throw unsupported(`${part.type} parts`, `results of tools with ${part.type} parts are not supported`);
    }).join('');
  }
}
