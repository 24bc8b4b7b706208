/** Which parameters a request may have: those that are read, those that change nothing, and those that are refused. */

import { usage } from '../error.js';

/** OpenAI's parameters that change nothing here: they name a model, or are about a server's books and caches. */
const HARMLESS = new Set([
  'model', 'user', 'safety_identifier', 'metadata', 'service_tier', 'prompt_cache_key', 'prompt_cache_options',
  'prompt_cache_retention',
]);

/** OpenAI's parameters that are not done, but for values which ask for nothing; with what to do instead. */
const NOT_DONE: { [key: string]: { allows?: (value: unknown) => boolean; hint?: string } } = {
  audio: {},
  best_of: { allows: (value) => value === 1, hint: 'n gives several answers' },
  function_call: { hint: 'use tool_choice' },
  functions: { hint: 'use tools' },
  modalities: { allows: (value) => Array.isArray(value) && value.every((kind) => kind === 'text'), hint: "it may be ['text']" },
  moderation: {},
  prediction: {},
  response_format: { allows: (value) => typed(value) === 'text', hint: "it may be { type: 'text' }" },
  store: { allows: (value) => value === false, hint: 'nothing is stored' },
  suffix: {},
  verbosity: { allows: (value) => value === 'medium' },
  web_search_options: {},
};

/** The `type` of an object of a request. */
export const typed = (value: unknown): unknown => (value as { type?: unknown } | null | undefined)?.type;

/** Edits that make one word of another: a character put in, left out or replaced. */
function edits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}

/** The words that end an error about an unknown name: the known one that is like it, if there is one. */
export function meant(name: string, known: Iterable<string>): string {
  // The longest name of OpenAI's has 22 letters; what is much longer is no slip.
  if (name.length > 40) return '';
  const likest = [...known].map((word) => [edits(name.toLowerCase(), word), word] as const).sort(([a], [b]) => a - b)[0];
  return likest && likest[0] <= Math.max(1, likest[1].length / 3) ? `did you mean ${likest[1]}?` : '';
}

/** A request without what is `undefined` or `null` and what changes nothing; a parameter that is not read is refused by name. */
export function parameters<Request extends object>(request: Request, read: { [key in keyof Required<Request>]?: true }): Partial<Request> {
  if (typeof request !== 'object' || request === null) throw usage('create takes an object', 'request');
  const given: Partial<Request> = {};
  for (const [key, value] of Object.entries(request)) {
    const notDone = Object.hasOwn(NOT_DONE, key) ? NOT_DONE[key] : undefined;
    const reads = Object.hasOwn(read, key);
    if (!reads && !notDone && !HARMLESS.has(key)) {
      throw usage(`${key} is not a parameter of create`, key, meant(key, [...Object.keys(read), ...HARMLESS, ...Object.keys(NOT_DONE)]));
    }
    if (value === undefined || value === null) continue;
    if (reads) given[key as keyof Request] = value as Request[keyof Request];
    else if (notDone && !notDone.allows?.(value)) throw usage(`${key} is not done by RLX`, key, notDone.hint);
  }
  return given;
}
