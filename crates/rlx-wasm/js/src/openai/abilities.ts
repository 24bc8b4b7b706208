/** What a model's chat template says that it can do, before anything is asked of it. */

import type { ModelTools } from '../types.js';
import { formOf } from './forms.js';
import type { Form } from './forms.js';

/** Whether a template has a variable. */
export const knows = (template: string, name: string): boolean => new RegExp(`\\b${name}\\b`).test(template);

/** Why a model whose template can be read is given no functions; undefined if it takes them. */
export function noTools(template: string, form: Form): string | undefined {
  if (!knows(template, 'tools')) return "the model's chat template takes no tools";
  if (!form.calls && !form.channels) return 'the form of the calls that this model writes is not known to RLX';
  return undefined;
}

/**
 * `tools` and `reasoning` of `EngineInfo`, of the template for conversations with tools; `isToken` says whether a text is
 * one token.
 */
export function abilities(
  template: string, isToken: (text: string) => boolean,
): { tools: ModelTools | null; reasoning: boolean } {
  const form = formOf(template);
  const { calls, channels, thoughts } = form;
  const tools = template === '' || noTools(template, form) !== undefined ? null : {
    required: !calls?.free,
    // What is held to a schema begins at a mark, which has to be seen among the tokens.
    strict: calls !== undefined && !calls.free && !calls.bare && isToken(calls.open),
  };
  return { tools, reasoning: channels === true || thoughts !== undefined };
}
