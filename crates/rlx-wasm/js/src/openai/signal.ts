/** What ends a call. */

import { usage } from '../error.js';
import type { CallOptions } from './types.js';

/** The signal of a call, from either place where OpenAI's clients and the web put it. */
export function signalOf(request: { signal?: AbortSignal | undefined }, options: CallOptions = {}): AbortSignal | undefined {
  const [unknown] = Object.keys(options).filter((key) => key !== 'signal');
  if (unknown !== undefined) throw usage(`${unknown} is not an option of a call`, unknown);
  const signals = [request.signal, options.signal].filter((signal) => signal !== undefined && signal !== null);
  return signals.length < 2 ? signals[0] : AbortSignal.any(signals);
}
