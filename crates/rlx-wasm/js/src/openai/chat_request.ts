/** Checks a request for a chat, and makes what the module is told. */

import { usage } from '../error.js';
import type { WasmRequest } from '../wasm.js';
import { knows, noTools } from './abilities.js';
import { formOf } from './forms.js';
import type { Form } from './forms.js';
import { templateMessages } from './messages.js';
import { meant, parameters, typed } from './parameters.js';
import { LIKELIEST, number, SAMPLING, sampling, sliding, telling, truth, whole } from './sampling.js';
import type { Telling } from './sampling.js';
import type { ChatRequest, ChatTool } from './types.js';

const READ = {
  ...SAMPLING, messages: true, max_completion_tokens: true, tools: true, tool_choice: true, parallel_tool_calls: true,
  reasoning_effort: true, chat_template_kwargs: true, logprobs: true, top_logprobs: true, response_format: true, grammar: true,
  overflow: true,
} as const;

/** A request that has been checked. */
export interface CheckedChat {
  wasm: WasmRequest;
  form: Form;
  /** Functions that the model may call. */
  tools: readonly ChatTool[];
  telling: Telling;
  /** What may ask for a form of the answers, if anything does. */
  held: Partial<ChatRequest> | undefined;
}

/** Checks the functions that a request gives. */
function toolsOf(given: unknown): ChatTool[] {
  if (!Array.isArray(given)) throw usage('tools must be a list', 'tools');
  return given.map((tool: unknown, i) => {
    const at = `tools[${i}]`;
    const type = typed(tool);
    if (type !== 'function') throw usage(`a tool is of type ${String(type)}, only function is done by RLX`, at);
    const { function: described } = tool as { function?: unknown };
    const { name, description, parameters: schema, strict } = (described ?? {}) as { [key: string]: unknown };
    if (typeof name !== 'string' || !/^[\w.-]{1,64}$/.test(name)) throw usage('a function must have a name of 1 to 64 letters, digits, _, . and -', at);
    if ((description ?? '') !== String(description ?? '')) throw usage('description must be a text', at);
    if (typeof (schema ?? {}) !== 'object' || Array.isArray(schema)) throw usage('parameters must be a JSON schema', at);
    truth(strict ?? undefined, `${at}.function.strict`);
    return tool as ChatTool;
  });
}

/** The functions that a model is told of. */
function toolsFor(request: Partial<ChatRequest>, template: string, form: Form): ChatTool[] {
  const tools = request.tools === undefined ? [] : toolsOf(request.tools);
  truth(request.parallel_tool_calls, 'parallel_tool_calls');
  if (tools.length === 0 || request.tool_choice === 'none') return [];
  // One that cannot be read says why when the prompt is made.
  const refused = template === '' ? undefined : noTools(template, form);
  if (refused !== undefined) throw usage(refused, 'tools', 'use a model that was made for tools, or leave them out');
  return tools;
}

/** Variables of the template besides the messages. */
function variablesOf(request: Partial<ChatRequest>, template: string, tools: readonly ChatTool[]): { [name: string]: unknown } {
  const given: unknown = request.chat_template_kwargs ?? {};
  if (typeof given !== 'object' || Array.isArray(given)) throw usage('chat_template_kwargs must be an object', 'chat_template_kwargs');
  const variables: { [name: string]: unknown } = {};
  const { reasoning_effort: effort } = request;
  if (effort !== undefined) {
    if (typeof effort !== 'string') throw usage('reasoning_effort must be a text', 'reasoning_effort');
    if (knows(template, 'reasoning_effort')) variables.reasoning_effort = effort;
    else if (effort === 'none' && knows(template, 'enable_thinking')) variables.enable_thinking = false;
  }
  for (const [name, value] of Object.entries(given as object)) {
    const at = `chat_template_kwargs.${name}`;
    if (['messages', 'tools', 'add_generation_prompt', 'bos_token', 'eos_token'].includes(name)) throw usage(`${name} is no variable to give`, at);
    if (!/^\w+$/.test(name) || !knows(template, name)) {
      throw usage(`the model's chat template has no variable ${name}`, at, meant(name, template.match(/\b[a-z]\w+/g) ?? []));
    }
    if (value !== undefined) variables[name] = value;
  }
  if (tools.length > 0) variables.tools = tools;
  return variables;
}

/** Most tokens of the answer, under either of its names. */
function mostTokens(request: Partial<ChatRequest>): number | null {
  const most = number(request, 'max_completion_tokens', whole(1, 'a whole number, 1 or more'));
  if (most === undefined) return request.max_tokens ?? null;
  if (request.max_tokens !== undefined && request.max_tokens !== most) {
    throw usage('max_tokens and max_completion_tokens differ', 'max_completion_tokens', 'they are one option: give one of them');
  }
  return most;
}

/** How many of the likeliest tokens are told beside each; null if no probabilities are. */
function likeliest(request: Partial<ChatRequest>): number | null {
  const asks = truth(request.logprobs, 'logprobs');
  const top = number({ top_logprobs: request.top_logprobs }, 'top_logprobs', LIKELIEST);
  if (asks) return top ?? 0;
  if (top !== undefined) throw usage('top_logprobs is beside logprobs', 'top_logprobs', 'set logprobs: true or leave it out');
  return null;
}

/** Whether a request asks for a form of its answers: `asks.ts` then checks how. */
function asksForForm(request: Partial<ChatRequest>, tools: readonly ChatTool[]): boolean {
  const { response_format: format, grammar, tool_choice: choice = 'auto', parallel_tool_calls: parallel } = request;
  return (format !== undefined && typed(format) !== 'text') || grammar !== undefined || (choice !== 'auto' && choice !== 'none')
    || (tools.length > 0 && (parallel === false || tools.some((tool) => tool.function?.strict)));
}

/** Checks a request, except what needs the tokenizer, and fills in defaults. */
export function chatRequest(request: ChatRequest, templateOf: (tools: boolean) => string): CheckedChat {
  const given = parameters(request, READ);
  const template = templateOf(Array.isArray(given.tools) && given.tools.length > 0 && given.tool_choice !== 'none');
  const form = formOf(template);
  const messages = templateMessages(given.messages, template);
  const tools = toolsFor(given, template, form);
  const wasm: WasmRequest = {
    ...sampling(given),
    max_tokens: mostTokens(given),
    messages,
    logprobs: likeliest(given),
    ...sliding(given),
    variables: variablesOf(given, template, tools),
    controls: form.channels === true || form.thoughts !== undefined || tools.length > 0,
  };
  return { wasm, form, tools, telling: telling(given), held: asksForForm(given, tools) ? given : undefined };
}
