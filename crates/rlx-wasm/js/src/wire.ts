/**
 * What travels between an engine and its users over a port: plain data, which `postMessage` can copy.
 *
 * The engine's side first says `hello`, with the lock that its thread holds for as long as it lives. Every call has a number of the user's choice. Its answer is a value, an error,
 * or a stream of chunks, of which the engine's side sends no more than the user has asked for.
 */

import { RlxError } from './error.js';
import type { EngineInfo, ErrorCode, ErrorDetails, LoadProgress, Notice } from './types.js';

/** The package's version, as in package.json: both sides must have the same. */
export const VERSION = '0.1.0';

/** Chunks of a stream that may be under way or unread. */
export const WINDOW = 64;

/** The first message to a worker, with a port for one engine. */
export interface Connect {
  rlx: 'connect';
}

export type Method = 'load' | 'chat' | 'complete' | 'tokenize' | 'detokenize' | 'countTokens' | 'memory' | 'reload';

export type ToEngine =
  | { call: Method; id: number; args: readonly unknown[] }
  /** The signal of a call fired. */
  | { abort: number }
  /** So many chunks of a stream have been read. */
  | { read: number; count: number }
  /** Nobody reads this stream any more. */
  | { leave: number }
  /** The lock that the user's thread holds for as long as it lives. */
  | { lock: string }
  /** The user is done with the engine. */
  | { dispose: true };

export type FromEngine =
  | { hello: string; lock: string | undefined }
  /** How a call ended, and what `info` answers now. */
  | { value: unknown; id: number; info: EngineInfo | undefined }
  | { error: WireError; id: number; info: EngineInfo | undefined }
  /** The call answers with a stream: chunks, then a value or an error. */
  | { stream: number }
  | { chunk: unknown; id: number }
  /** For the listeners of a call. */
  | { progress: LoadProgress; id: number }
  | { notice: Notice }
  | { lost: WireError }
  /** A fact about this machine, to be stored for the origin. */
  | { keep: readonly [name: string, key: string, text: string] }
  /** The memory is free, or the user is forgotten. */
  | { disposed: true };

/** An `RlxError` as data. */
export interface WireError {
  code: ErrorCode;
  what: string;
  at: string;
  hint: string;
  text?: string;
  details?: ErrorDetails;
  cause?: Error;
}

export function toWire({ code, what, at, hint, text, details, cause }: RlxError): WireError {
  return {
    code, what, at, hint,
    ...(text !== undefined && { text }),
    ...(details && { details }),
    // Only its name, message and stack travel: it may hold what cannot be copied.
    ...(cause instanceof Error && { cause: Object.assign(new Error(cause.message), { name: cause.name }) }),
  };
}

export function fromWire({ code, what, ...more }: WireError): RlxError {
  return new RlxError(code, what, more);
}
