/** Grammars of the calls that models write, in llguidance's dialect of Lark: what `calls.ts` reads. */

import { usage } from '../error.js';
import type { Form } from './forms.js';
import type { ChatTool } from './types.js';
import type { Vocabulary } from './vocabulary.js';

/** Whitespace inside JSON, as `rlx-grammar` has it for schemas. */
const WHITESPACE = '\\x20|\\r?\\n(\\x20{0,32}|\\x09{0,8})';

type Described = NonNullable<ChatTool['function']>;

/** A form's calls: what one of a function is, and how several stand, without the marks around all. */
interface Written {
  call(tool: Described): string;
  /** Several calls from one; `once` is one alone. */
  all?(call: string, once: boolean): string;
}

const text = (literal: string) => JSON.stringify(literal);

/** A JSON text of a schema. */
const json = (schema: object) => `%json ${JSON.stringify({ 'x-guidance': { whitespace_pattern: WHITESPACE }, ...schema })}`;

const given = ({ parameters }: Described) => json(parameters ?? { type: 'object' });

/** `{"name": "f", "arguments": {…}}`. */
const object = (key: string): Written['call'] => (tool) =>
  `${text(`{"name": ${JSON.stringify(tool.name)}, ${JSON.stringify(key)}: `)} ${given(tool)} "}"`;

/** Calls in a list. */
const list: Written = {
  call: object('arguments'),
  all: (call, once) => `"[" ${call} ${once ? '' : `(", " ${call})*`} "]"`,
};

/** A schema of a text that is written as it is. */
interface TextSchema {
  type?: unknown;
  minLength?: number;
  maxLength?: number;
}

/** Longer texts are not counted: a count is a part of the grammar for each character. */
const MOST_COUNTED = 1000;

/** Qwen3-Coder's blocks. A value is text where the schema says so, else JSON. `rules` takes those that values need. */
function blocks({ name, parameters = {} }: Described, rules: string[]): string {
  const { properties = {}, required = [] } = parameters as { properties?: { [key: string]: TextSchema }; required?: string[] };
  const valueOf = (key: string, schema: TextSchema): string => {
    if (schema.type !== 'string' || 'enum' in schema || 'const' in schema) return `${json(schema)} "\\n</parameter>"`;
    const unknown = ['pattern', 'format'].find((keyword) => keyword in schema);
    if (unknown) {
      const what = `${unknown} of ${name}'s parameter ${key} is not done in the form of this model's calls, whose texts are no JSON`;
      throw usage(what, 'tools', 'use enum, or leave it out');
    }
    const { minLength = 0, maxLength = Infinity } = schema;
    const most = maxLength > MOST_COUNTED ? '' : maxLength;
    rules.push(`text_${rules.length}[suffix="\\n</parameter>"]: /(.|\\n){${Math.min(minLength, MOST_COUNTED)},${most}}/`);
    return `text_${rules.length - 1}`;
  };
  const values = Object.entries(properties).map(([key, schema]) => {
    const block = `${text(`\n<parameter=${key}>\n`)} ${valueOf(key, schema)}`;
    return required.includes(key) ? block : `(${block})?`;
  });
  return `${text(`<function=${name}>`)} ${values.join(' ')} "\\n</function>"`;
}

/** How a model with this template writes its calls. */
function written(form: Form, template: string, vocabulary: Vocabulary, rules: string[]): Written | undefined {
  const mark = (literal: string) => vocabulary.lark(literal);
  if (form.channels) {
    return {
      call: (tool) => `${mark('<|channel|>')} ${text(`commentary to=functions.${tool.name} `)} ${mark('<|constrain|>')} "json" ${mark('<|message|>')} ${given(tool)}`,
      all: (call) => call,
    };
  }
  switch (form.calls?.open) {
    case '<tool_call>': {
      const call = template.includes('<function=') ? (tool: Described) => blocks(tool, rules) : object('arguments');
      return { call: (tool) => `"\\n" ${call(tool)} "\\n"` };
    }
    case '[TOOL_CALLS]':
      if (!template.includes('[ARGS]')) return list;
      return { call: (tool) => `${text(tool.name)} ${mark('[ARGS]')} ${given(tool)}` };
    case '<|tool_call_start|>': case '<|tool_call|>': return list;
    case '<|python_tag|>': return { call: object('parameters') };
    default: return undefined;
  }
}

/**
 * The grammar of an answer that is calls of these functions, one if `once`; behind the mark that opens a call and of that
 * call alone if `opened`.
 */
export function callGrammar(
  form: Form, template: string, vocabulary: Vocabulary, tools: readonly ChatTool[], { once, opened = false }: { once: boolean; opened?: boolean },
): string {
  const rules: string[] = [];
  const how = written(form, template, vocabulary, rules);
  if (!how) {
    throw usage("nothing holds this model's calls to a schema or forces one", 'tools', 'leave strict out, and tool_choice auto: the form of its calls is no JSON');
  }
  const { open, close, bare } = form.calls ?? {};
  const calls = tools.map(({ function: described }) => how.call(described!)).join(' | ');
  const mark = (literal: string | undefined) => (literal === undefined || form.channels ? '' : vocabulary.lark(literal));
  const one = `${opened || bare ? '' : mark(open)} ${how.all ? how.all('call', once) : 'call'} ${mark(close)}`;
  const times = once || opened || how.all || bare ? '' : ' ("\\n"? one)*';
  return `start: one${times}\none: ${one}\ncall: ${calls}\n${rules.join('\n')}\n`;
}
