/** The one error of the package; Rust's errors arrive as it with the same words. */

import type { ErrorCode, ErrorDetails } from './types.js';

export class RlxError extends Error {
  /** What kind of fault; branch on this. */
  readonly code: ErrorCode;
  /** One sentence: what happened. */
  readonly what: string;
  /** Where: an address, a file and byte, a parameter. Empty when there is no place. */
  readonly at: string;
  /** What to do. Empty when there is nothing to be done. */
  readonly hint: string;
  /** What a program can act on without reading the sentences, where there is such. */
  readonly details?: ErrorDetails;
  /** The text so far of a call that was cancelled or failed on its way. */
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
    // The web's convention for whatever a signal ended, so that `err.name === 'AbortError'` holds.
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

/** Throws `cancelled` when the signal has fired. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw cancelled();
}

/** The same fault with the text that had been generated before it. */
export function withText(error: RlxError, text: string): RlxError {
  const { code, what, at, hint, cause, details } = error;
  return new RlxError(code, what, { at, hint, cause, text, ...(details && { details }) });
}

/**
 * The end of an instance of the wasm module: what was thrown out of it, and the words of Rust's panic, if
 * it was one. Rust aborts without a word, by `unreachable`, where an allocation fails.
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
 * Makes an `RlxError` of whatever was thrown: Rust throws its error as JSON text
 * (`{"code", "what", "at", "hint", "details"?}`), a wasm trap is a `RuntimeError`, an abort a `DOMException`.
 */
export function toRlxError(thrown: unknown): RlxError {
  if (thrown instanceof RlxError) return thrown;
  if (typeof thrown === 'string' && thrown.startsWith('{')) {
    try {
      const { code, what, at = '', hint = '', details } = JSON.parse(thrown) as Partial<RlxError>;
      if (code && what) return new RlxError(code, what, { at, hint, ...(details && { details }) });
    } catch {
      // Not ours after all: it is reported below as it is.
    }
  }
  if (thrown instanceof Error && thrown.name === 'AbortError') return cancelled();
  if (thrown instanceof WebAssembly.RuntimeError) return stopped(thrown);
  const what = thrown instanceof Error ? thrown.message : String(thrown);
  return new RlxError('internal', what, { hint: 'this is a bug in RLX, please report it', cause: thrown });
}
