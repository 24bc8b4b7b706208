/** The package's only error class; Rust's errors become it, with the same texts. */

import type { ErrorCode, ErrorDetails } from './types.js';

export class RlxError extends Error {
  /** The kind of error; branch on this. */
  readonly code: ErrorCode;
  /** One sentence: what happened. */
  readonly what: string;
  /** Where it happened: an address, a file and byte, a parameter. Empty if there is no place. */
  readonly at: string;
  /** What to do about it. Empty if there is nothing to do. */
  readonly hint: string;
  /** Details for programs, if there are any. */
  readonly details?: ErrorDetails;
  /** The text so far of a call that was cancelled or failed. */
  readonly text?: string;

  constructor(
    code: ErrorCode,
    what: string,
    more: { at?: string; hint?: string; cause?: unknown; text?: string; details?: ErrorDetails } = {},
  ) {
    const at = more.at ?? '';
    const hint = more.hint ?? '';
    super(
      what + (at && ` (${at})`) + (hint && `; ${hint}`),
      more.cause === undefined ? undefined : { cause: more.cause },
    );
    // The web's convention for work that a signal ended: `err.name === 'AbortError'`.
    this.name = code === 'cancelled' ? 'AbortError' : 'RlxError';
    this.code = code;
    this.what = what;
    this.at = at;
    this.hint = hint;
    if (more.text !== undefined) this.text = more.text;
    if (more.details !== undefined) this.details = more.details;
  }
}

export const cancelled = (what = 'the call was cancelled', text?: string): RlxError =>
  new RlxError('cancelled', what, text === undefined ? {} : { text });

export const usage = (what: string, at: string, hint = ''): RlxError => new RlxError('usage', what, { at, hint });

/** What calls of an engine that was disposed end with. */
export const disposed = (): RlxError => new RlxError('disposed', 'the engine was disposed', { hint: 'load the model again' });

/** What calls end with if the thread of their engine does. */
export const gone = (): RlxError => new RlxError('internal', 'the worker of the engine ended', { hint: 'load the model again' });

/** Throws `cancelled` if the signal has fired. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw cancelled();
}

/** The same error, with the text that was generated before it. */
export function withText(error: RlxError, text: string): RlxError {
  const { code, what, at, hint, cause, details } = error;
  return new RlxError(code, what, { at, hint, cause, text, ...(details && { details }) });
}

/**
 * The error that ends an instance of the wasm module: the exception, and the message of Rust's panic, if it
 * was one. If an allocation fails, Rust aborts without a message, by `unreachable`.
 */
export function stopped(thrown: unknown, panic = ''): RlxError {
  const said = panic || (thrown instanceof Error ? thrown.message : String(thrown));
  const again = 'load the model again or call engine.reload()';
  const hint = !panic && /unreachable/i.test(said)
    ? `it may have found no memory: use a smaller model or contextLength or close other tabs, then ${again}`
    : `${again}; this is a bug in RLX, please report it`;
  return new RlxError('internal', `the wasm module stopped: ${said}`, { hint, cause: thrown });
}

/**
 * Makes an `RlxError` of any exception: Rust throws its error as JSON text
 * (`{"code", "what", "at", "hint", "details"?}`), a wasm trap is a `RuntimeError`, an abort a `DOMException`.
 */
export function toRlxError(thrown: unknown): RlxError {
  if (thrown instanceof RlxError) return thrown;
  if (typeof thrown === 'string' && thrown.startsWith('{')) {
    try {
      const { code, what, at = '', hint = '', details } = JSON.parse(thrown) as Partial<RlxError>;
      if (code && what) return new RlxError(code, what, { at, hint, ...(details && { details }) });
    } catch {
      // Not an error of RLX: reported below unchanged.
    }
  }
  if (thrown instanceof Error && thrown.name === 'AbortError') return cancelled();
  if (thrown instanceof WebAssembly.RuntimeError) return stopped(thrown);
  const what = thrown instanceof Error ? thrown.message : String(thrown);
  return new RlxError('internal', what, { hint: 'this is a bug in RLX, please report it', cause: thrown });
}
