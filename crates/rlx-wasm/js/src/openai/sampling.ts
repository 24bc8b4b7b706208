/** The part of a request that every kind of completion has: how tokens are chosen, how many, and how they are told. */

import { usage } from '../error.js';
import type { WasmRequest } from '../wasm.js';
import type { SamplingRequest } from './types.js';

/** Keys that every kind of completion reads. */
export const SAMPLING = {
  n: true, max_tokens: true, temperature: true, top_p: true, top_k: true, min_p: true, repetition_penalty: true,
  frequency_penalty: true, presence_penalty: true, logit_bias: true, seed: true, steps: true, threshold: true,
  editing_threshold: true, max_post_steps: true, stop: true, ignore_eos: true, stream: true, stream_options: true, signal: true,
} as const;

type NumberKey = 'n' | 'max_tokens' | 'max_completion_tokens' | 'temperature' | 'top_p' | 'top_k' | 'min_p' | 'repetition_penalty'
  | 'top_logprobs' | 'logprobs' | 'frequency_penalty' | 'presence_penalty' | 'seed' | 'steps' | 'threshold' | 'editing_threshold' | 'max_post_steps';

/** A number within its range; `above` excludes the lower end. */
export function number(
  request: { readonly [key in NumberKey]?: unknown },
  key: NumberKey,
  range: { min: number; max: number; above?: boolean; whole?: boolean; text: string },
): number | undefined {
  const value = request[key];
  if (value === undefined) return undefined;
  const fits = typeof value === 'number' && value >= range.min && value <= range.max
    && !(range.above && value === range.min) && !(range.whole && !Number.isInteger(value));
  if (!fits) throw usage(`${key} is ${String(value)}, it must be ${range.text}`, key);
  return value;
}

export const whole = (min: number, text: string) => ({ min, max: Number.MAX_SAFE_INTEGER, whole: true, text });

/** A truth value. */
export function truth(value: unknown, key: string): boolean {
  if (value !== undefined && typeof value !== 'boolean') throw usage(`${key} must be true or false`, key);
  return value === true;
}

/** When usage is told: with the last answer's end, in a chunk of its own, or never. */
export type UsageMode = 'with the end' | 'own chunk' | 'never';

/** How an answer is told. */
export interface Telling {
  stream: boolean;
  usage: UsageMode;
  n: number;
}

/** Checks how an answer is to be told. */
export function telling(request: Partial<SamplingRequest>): Telling {
  const stream = truth(request.stream, 'stream');
  const options: unknown = request.stream_options;
  const n = number(request, 'n', { min: 1, max: 128, whole: true, text: 'a whole number from 1 to 128' }) ?? 1;
  if (options === undefined) return { stream, usage: 'with the end', n };
  if (!stream) throw usage('stream_options is for streams', 'stream_options', 'set stream: true or leave it out');
  if (typeof options !== 'object') throw usage('stream_options must be an object', 'stream_options');
  const { include_usage, include_obfuscation, ...others } = options as { [key: string]: unknown };
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw usage(`${unknown} is not an option of streams`, `stream_options.${unknown}`);
  truth(include_obfuscation ?? undefined, 'stream_options.include_obfuscation');
  const own = truth(include_usage ?? undefined, 'stream_options.include_usage');
  return { stream, usage: own ? 'own chunk' : 'never', n };
}

/** How many of the likeliest tokens may be told. */
export const LIKELIEST = { min: 0, max: 20, whole: true, text: 'a whole number from 0 to 20' };

/** Checks how tokens are chosen, and fills in defaults. */
export function sampling(request: Partial<SamplingRequest>): Omit<WasmRequest, 'messages' | 'controls' | 'logprobs'> {
  const stop: unknown = request.stop ?? [];
  const stops: readonly unknown[] = Array.isArray(stop) ? stop : [stop];
  if (stops.length > 16 || stops.some((text) => typeof text !== 'string' || text === '')) {
    throw usage('stop must be at most 16 texts, none of them empty', 'stop');
  }
  const share = { min: 0, max: 1, text: 'from 0 to 1' };
  const penalty = { min: -2, max: 2, text: 'from -2 to 2' };
  return {
    max_tokens: number(request, 'max_tokens', whole(1, 'a whole number, 1 or more')) ?? null,
    temperature: number(request, 'temperature', { min: 0, max: 2, text: 'from 0 to 2' }) ?? null,
    top_p: number(request, 'top_p', { min: 0, max: 1, above: true, text: 'above 0 and at most 1' }) ?? 1,
    top_k: number(request, 'top_k', whole(0, 'a whole number, 0 or more')) ?? 0,
    min_p: number(request, 'min_p', share) ?? 0,
    repetition_penalty: number(request, 'repetition_penalty', { min: 0, max: 2, above: true, text: 'above 0 and at most 2' }) ?? 1,
    frequency_penalty: number(request, 'frequency_penalty', penalty) ?? 0,
    presence_penalty: number(request, 'presence_penalty', penalty) ?? 0,
    logit_bias: biases(request.logit_bias),
    seed: number(request, 'seed', whole(0, 'a whole number from 0 to 2^53 - 1')) ?? crypto.getRandomValues(new Uint32Array(1))[0]!,
    steps: number(request, 'steps', { min: 1, max: 2 ** 32 - 1, whole: true, text: 'a whole number, 1 or more' }) ?? null,
    threshold: number(request, 'threshold', share) ?? null,
    editing_threshold: number(request, 'editing_threshold', share) ?? null,
    max_post_steps: number(request, 'max_post_steps', { min: 0, max: 1024, whole: true, text: 'a whole number from 0 to 1024' }) ?? null,
    stop: stops as string[],
    ignore_eos: truth(request.ignore_eos ?? undefined, 'ignore_eos'),
  };
}

/** What happens where the context is full. */
export function sliding({ overflow }: { overflow?: unknown }): { slides?: true } {
  if (![undefined, null, 'error', 'slide'].includes(overflow as string)) throw usage('overflow must be error or slide', 'overflow');
  return overflow === 'slide' ? { slides: true } : {};
}

/** Token ids with their biases. */
function biases(given: unknown): [number, number][] {
  if (given === undefined || given === null) return [];
  if (typeof given !== 'object' || Array.isArray(given)) throw usage('logit_bias must be an object: biases by token id', 'logit_bias');
  return Object.entries(given).map(([id, bias]: [string, unknown]) => {
    if (!/^\d{1,9}$/.test(id)) throw usage(`${id} is no token id`, 'logit_bias');
    if (typeof bias !== 'number' || !(bias >= -100 && bias <= 100)) {
      throw usage(`the bias of token ${id} is ${String(bias)}, it must be from -100 to 100`, 'logit_bias');
    }
    return [Number(id), bias];
  });
}
