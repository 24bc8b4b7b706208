/** What a request asks of its answers' form. */

import { usage } from '../error.js';
import { meant, typed } from './parameters.js';
import type { ChatRequest, ChatTool } from './types.js';

/** The part of a request that may ask for a form. */
export type FormRequest = Pick<Partial<ChatRequest>, 'response_format' | 'grammar' | 'tool_choice' | 'parallel_tool_calls'>;

/** A grammar, by a kind that `rlx-grammar` knows. */
export interface Grammar {
  kind: 'json' | 'schema' | 'regex' | 'gbnf' | 'lark';
  text: string;
}

/** What is asked for. */
export interface Asks {
  /** The form of the whole answer, thoughts and calls aside. */
  answer?: Grammar | undefined;
  /** The functions of which one must be called. */
  forced?: readonly ChatTool[] | undefined;
  /** Calls are held to their schemas. */
  strict: boolean;
  /** At most one call. */
  once: boolean;
}

const KINDS = ['gbnf', 'lark', 'regex'] as const;

function grammarOf(grammar: unknown): Grammar {
  if (typeof grammar === 'string') return { kind: 'gbnf', text: grammar };
  const { syntax, definition, ...others } = (grammar ?? {}) as { [key: string]: unknown };
  const kind = KINDS.find((known) => known === syntax);
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw usage(`${unknown} is no part of a grammar`, `grammar.${unknown}`, meant(unknown, ['syntax', 'definition']));
  if (!kind || typeof definition !== 'string') {
    throw usage('a grammar must be a text in GBNF, or have a syntax (gbnf, lark or regex) and its definition as a text', 'grammar');
  }
  return { kind, text: definition };
}

function formatOf(format: unknown): Grammar | undefined {
  const type = typed(format);
  if (type === 'text') return undefined;
  if (type === 'json_object') return { kind: 'json', text: '' };
  if (type !== 'json_schema') {
    throw usage(`response_format is of type ${String(type)}, it must be text, json_object or json_schema`, 'response_format');
  }
  const { schema } = ((format as { json_schema?: unknown }).json_schema ?? {}) as { schema?: unknown };
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    throw usage('json_schema must have a schema, which is an object', 'response_format.json_schema');
  }
  return { kind: 'schema', text: JSON.stringify(schema) };
}

/** The functions of which one must be called, if one must. */
function forcedOf(choice: unknown, tools: readonly ChatTool[]): readonly ChatTool[] | undefined {
  if (choice === undefined || choice === 'auto' || choice === 'none') return undefined;
  if (choice === 'required') {
    if (tools.length === 0) throw usage('tool_choice required needs tools', 'tool_choice');
    return tools;
  }
  if (typed(choice) !== 'function') {
    const what = typeof choice === 'string' ? choice : String(typed(choice));
    throw usage(`tool_choice ${what} is not done by RLX`, 'tool_choice', 'it may be auto, none, required or a function');
  }
  const name = (choice as { function?: { name?: unknown } }).function?.name;
  const chosen = tools.filter((tool) => tool.function?.name === name);
  if (chosen.length === 0) {
    throw usage(`tool_choice is the function ${String(name)}, which is none of the tools`, 'tool_choice', meant(String(name), tools.map((tool) => tool.function!.name)));
  }
  return chosen;
}

/** Checks what a request asks of its answers' form. */
export function asksOf({ response_format, grammar, tool_choice, parallel_tool_calls }: FormRequest, tools: readonly ChatTool[]): Asks {
  const format = response_format ? formatOf(response_format) : undefined;
  const own = grammar === undefined || grammar === null ? undefined : grammarOf(grammar);
  if (format && own) throw usage('grammar and response_format are two forms of one answer', 'grammar', 'give one of them');
  const forced = forcedOf(tool_choice ?? undefined, tools);
  const answer = own ?? format;
  if (forced && answer) throw usage('a forced call and another form exclude each other', 'tool_choice', 'leave response_format and grammar out, or choose auto');
  return {
    answer,
    forced,
    strict: tools.some((tool) => tool.function?.strict === true),
    once: tools.length > 0 && parallel_tool_calls === false,
  };
}
