/** The settings of a conversation: what they are called, and which values they may have. */

import type { Settings } from './types.js';

export interface Setting {
  name: keyof Settings;
  label: string;
  help: string;
  min: number;
  max: number;
  step: number;
}

export const SETTINGS: readonly Setting[] = [
  {
    name: 'temperature',
    label: 'Temperature',
    min: 0,
    max: 2,
    step: 0.05,
    help: '0 takes the likeliest token each time; above 1 answers wander.',
  },
  {
    name: 'top_p',
    label: 'Top p',
    min: 0.01,
    max: 1,
    step: 0.01,
    help: 'Only the likeliest tokens that together have this probability.',
  },
  {
    name: 'top_k',
    label: 'Top k',
    min: 0,
    max: 1000,
    step: 1,
    help: 'Only so many of the likeliest tokens; 0 takes all.',
  },
  {
    name: 'min_p',
    label: 'Min p',
    min: 0,
    max: 1,
    step: 0.01,
    help: 'Only tokens of at least this share of the likeliest one’s probability.',
  },
  {
    name: 'repetition_penalty',
    label: 'Repetition penalty',
    min: 0.05,
    max: 2,
    step: 0.05,
    help: 'Above 1, tokens that were said are less likely.',
  },
  { name: 'max_tokens', label: 'Longest answer', min: 1, max: 131_072, step: 1, help: 'In tokens.' },
  {
    name: 'seed',
    label: 'Seed',
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    step: 1,
    help: 'Equal seeds give equal answers.',
  },
];

/** Why a setting cannot have this value, as a sentence; undefined if it can. */
export function refusal({ label, min, max, step }: Setting, value: number): string | undefined {
  if (!Number.isFinite(value)) return `${label} is a number.`;
  if (step === 1 && !Number.isInteger(value)) return `${label} is a whole number.`;
  if (value < min || value > max) {
    return max > 1e6 ? `${label} is ${min} or more.` : `${label} is from ${min} to ${max.toLocaleString('en')}.`;
  }
  return undefined;
}

/** The settings among what came from outside; others, and values that are not allowed, are left out. */
export function validSettings(value: unknown): Settings {
  const found: Settings = {};
  if (typeof value !== 'object' || value === null) return found;
  for (const setting of SETTINGS) {
    const given = (value as Record<string, unknown>)[setting.name];
    if (typeof given === 'number' && refusal(setting, given) === undefined) found[setting.name] = given;
  }
  return found;
}
