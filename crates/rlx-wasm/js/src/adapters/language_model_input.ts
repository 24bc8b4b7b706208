/** Inputs of the Prompt API as an engine's messages, and its errors. */

import { RlxError } from '../error.js';
import type { ToolCall } from '../openai/types.js';

/** A message of a prompt. A text as `content` is short for one text part. */
export interface LanguageModelMessage {
  role: 'system' | 'user' | 'assistant';
  content: string | readonly { type: 'text' | 'image' | 'audio' | 'tool-call' | 'tool-response'; value: unknown }[];
  /** Whether the answer goes on with this last message: not supported yet. */
  prefix?: boolean;
}

/** A message of a conversation, as the engine takes it. */
export interface TextMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
  /** What the assistant called before it went on. */
  tool_calls?: readonly ToolCall[];
  /** The call that a tool answers. */
  tool_call_id?: string;
}

export type LanguageModelPrompt = string | readonly LanguageModelMessage[];

export const fault = (name: string, message: string, cause?: unknown): DOMException => {
  const error = new DOMException(message, name);
  // Not an option of the constructor in browsers.
  if (cause !== undefined) Object.defineProperty(error, 'cause', { value: cause, configurable: true });
  return error;
};

export const notSupported = (what: string): DOMException => fault('NotSupportedError', `rlx-wasm/language-model does not support ${what}`);

/** The web's `QuotaExceededError`, which older browsers have as a plain `DOMException`. */
export function quotaExceeded(requested: number, quota: number): DOMException {
  const message = `the input makes ${requested} tokens, and the context window has ${quota}`;
  const { QuotaExceededError } = globalThis as { QuotaExceededError?: new (message: string, options: object) => DOMException };
  if (QuotaExceededError) return new QuotaExceededError(message, { requested, quota });
  return Object.assign(fault('QuotaExceededError', message), { requested, quota });
}

/** What a call rejects with: the signal's reason if it ended the call, else the engine's error as the API's. */
export function toFault(error: unknown, signal?: AbortSignal): unknown {
  if (signal?.aborted) return signal.reason;
  if (!(error instanceof RlxError)) return error;
  const { code, message, at } = error;
  if (code === 'cancelled') return fault('AbortError', message, error);
  if (code === 'unsupported' || at === 'tools' || at === 'grammar') return fault('NotSupportedError', message, error);
  if (code === 'disposed') return fault('InvalidStateError', message, error);
  if (code === 'io') return fault('NetworkError', message, error);
  return fault(code === 'device_unavailable' || code === 'bad_file' || code === 'out_of_memory' ? 'OperationError' : 'UnknownError', message, error);
}

/**
 * A prompt as messages. `begun`: the session has messages already, so that none of these may be the system's.
 * Throws as the specification's "validate and canonicalize a prompt", and `NotSupportedError` for all but text.
 */
export function toMessages(input: LanguageModelPrompt, begun: boolean): TextMessage[] {
  if (!isList(input)) return [{ role: 'user', content: String(input) }];
  if (input.length === 0) return [{ role: 'user', content: '' }];
  return input.map(({ role, content, prefix = false }, i) => {
    if (role !== 'system' && role !== 'user' && role !== 'assistant') throw new TypeError(`role is ${String(role)}, it must be system, user or assistant`);
    if (prefix && (role !== 'assistant' || i !== input.length - 1)) {
      throw fault('SyntaxError', 'prefix is for the last message alone, which must be the assistant’s');
    }
    if (prefix) throw notSupported('prefix');
    if (role === 'system' && (begun || i > 0)) throw new TypeError('the system’s message must be the first of a session');
    return { role, content: textOf(content) };
  });
}

function textOf(content: LanguageModelMessage['content']): string {
  if (!isList(content)) return String(content);
  return content.map(({ type, value }) => {
    if (type !== 'text') throw notSupported(`content of type ${String(type)}`);
    if (typeof value !== 'string') throw new TypeError('the value of a text must be a string');
    return value;
  }).join('');
}

const isList = <T>(value: string | readonly T[]): value is readonly T[] => Array.isArray(value);
