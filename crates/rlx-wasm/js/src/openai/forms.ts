/** How a model's answers are built: where it thinks, and how it calls functions. The chat template's text says so. */

import { gemmaCalls, hermesCalls, jsonCalls, llamaCalls, mistralCalls, pythonCalls } from './calls.js';
import type { ReadCalls } from './calls.js';

/** How calls stand in an answer. */
export interface CallForm {
  open: string;
  /** What ends a call; without it the answer's end does. */
  close?: string;
  /** Control tokens inside a call that its text needs. */
  inside?: readonly string[];
  /** A call may also begin with `{` where the answer does, with no mark before it. */
  bare?: true;
  /** They are no JSON, and no grammar is known that holds them to a schema. */
  free?: true;
  read: ReadCalls;
}

/** The form of a model's answers. */
export interface Form {
  /** What encloses thoughts, and a title that they begin with. */
  thoughts?: { open: string; close: string; title?: string };
  calls?: CallForm;
  /** Whether all of an answer is in channels, as gpt-oss has it. */
  channels?: true;
}

/** Texts of templates, the most telling first, with the calls that their models write. */
const CALLS: readonly (readonly [string, CallForm])[] = [
  ['<start_function_call>', { open: '<start_function_call>', close: '<end_function_call>', inside: ['<escape>'], free: true, read: gemmaCalls('<escape>') }],
  ['<|tool_call>', { open: '<|tool_call>', close: '<tool_call|>', inside: ['<|"|>'], free: true, read: gemmaCalls('<|"|>') }],
  ['<tool_call>', { open: '<tool_call>', close: '</tool_call>', read: hermesCalls }],
  ['[TOOL_CALLS]', { open: '[TOOL_CALLS]', inside: ['[TOOL_CALLS]', '[ARGS]', '[CALL_ID]'], read: mistralCalls }],
  ['<|tool_call_start|>', { open: '<|tool_call_start|>', close: '<|tool_call_end|>', read: pythonCalls }],
  ['<|tool_list_start|>', { open: '<|tool_call_start|>', close: '<|tool_call_end|>', read: pythonCalls }],
  ['<|tool_call|>', { open: '<|tool_call|>', read: jsonCalls }],
  ['"parameters": dictionary of argument', { open: '<|python_tag|>', bare: true, read: llamaCalls }],
];

const THOUGHTS: readonly (readonly [string, NonNullable<Form['thoughts']>])[] = [
  ['<|channel>', { open: '<|channel>', close: '<channel|>', title: 'thought' }],
  ['[THINK]', { open: '[THINK]', close: '[/THINK]' }],
  ['</think>', { open: '<think>', close: '</think>' }],
];

/** The form of the answers of a model with this chat template. */
export function formOf(template: string): Form {
  if (template.includes('<|channel|>') && template.includes('<|message|>')) return { channels: true };
  const first = <T>(rows: readonly (readonly [string, T])[]) => rows.find(([text]) => template.includes(text))?.[1];
  const [calls, thoughts] = [first(CALLS), first(THOUGHTS)];
  return { ...(calls && { calls }), ...(thoughts && { thoughts }) };
}
