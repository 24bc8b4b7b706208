/** Messages in OpenAI's shapes, checked, and as chat templates want them. */

import { usage } from '../error.js';
import { meant } from './parameters.js';
import type { ChatMessage } from './types.js';

/** What a template reads of a message. */
export interface TemplateMessage {
  role: string;
  content: string;
  name?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: unknown } }[];
  tool_call_id?: string;
  reasoning_content?: string;
  thinking?: string;
}

const ROLES = ['system', 'developer', 'user', 'assistant', 'tool'];
const KEYS = ['role', 'content', 'name', 'tool_calls', 'tool_call_id', 'reasoning_content', 'refusal', 'annotations'];

type Fields = { [key: string]: unknown };

/** The text of a message's content; its parts are lines of it. */
function textOf(content: unknown, at: string): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw usage('content must be a text, or a list of parts', at);
  return content.map((part: unknown, i) => {
    const { type, text } = (part ?? {}) as Fields;
    if (type !== 'text') throw usage(`a part is of type ${String(type)}, only text is read`, `${at}.content[${i}]`);
    if (typeof text !== 'string') throw usage('text must be a text', `${at}.content[${i}]`);
    return text;
  }).join('\n');
}

function optional(fields: Fields, key: string, at: string): string | undefined {
  const value = fields[key] ?? undefined;
  if (value !== undefined && typeof value !== 'string') throw usage(`${key} must be a text`, at);
  return value;
}

/** Templates that put arguments into a text; others print them as JSON. */
const JOINS_ARGUMENTS = /arguments['"\])]*\s*\+/;
const TELLS_ARGUMENTS_APART = /arguments['"\])]*\s*(\||is\s)/;

function callsOf(calls: unknown, at: string, template: string): NonNullable<TemplateMessage['tool_calls']> {
  if (!Array.isArray(calls)) throw usage('tool_calls must be a list', at);
  const asText = JOINS_ARGUMENTS.test(template) && !TELLS_ARGUMENTS_APART.test(template);
  return calls.map((call: unknown, i) => {
    const place = `${at}.tool_calls[${i}]`;
    const { id, type, function: called } = (call ?? {}) as Fields;
    if (type !== 'function') throw usage(`a call is of type ${String(type)}, it must be function`, place);
    const { name, arguments: given } = (called ?? {}) as Fields;
    if (typeof id !== 'string' || typeof name !== 'string' || typeof given !== 'string') {
      throw usage('a call must have an id, and a function with name and arguments, all of them texts', place);
    }
    try {
      const read: unknown = JSON.parse(given === '' ? '{}' : given);
      return { id, type: 'function', function: { name, arguments: asText ? given : read } };
    } catch {
      throw usage('arguments is no JSON', place);
    }
  });
}

function messageOf(message: unknown, i: number, template: string): TemplateMessage {
  const at = `messages[${i}]`;
  const fields = (message ?? {}) as Fields;
  const { role } = fields;
  if (typeof role !== 'string' || !ROLES.includes(role)) {
    throw usage(`role is ${String(role)}, it must be system, developer, user, assistant or tool`, at);
  }
  for (const key of Object.keys(fields)) {
    const value = fields[key] ?? undefined;
    if (value === undefined || KEYS.includes(key)) continue;
    if (key === 'audio' || key === 'function_call') throw usage(`${key} is not done by RLX`, `${at}.${key}`);
    throw usage(`${key} is nothing that a message has`, `${at}.${key}`, meant(key, KEYS));
  }
  const made: TemplateMessage = { role, content: '' };
  if (role === 'developer' && !template.includes('developer')) made.role = 'system';
  const name = optional(fields, 'name', at);
  if (name !== undefined) made.name = name;
  const { tool_calls: calls } = fields;
  if (calls !== undefined && calls !== null && !(Array.isArray(calls) && calls.length === 0)) {
    if (role !== 'assistant') throw usage('only an assistant calls tools', `${at}.tool_calls`);
    if (!template.includes('tool_calls')) throw usage("the model's chat template has no place for tool_calls", at, 'use a model that was made for tools');
    made.tool_calls = callsOf(calls, at, template);
  }
  const content = fields.content ?? optional(fields, 'refusal', at);
  const thoughts = optional(fields, 'reasoning_content', at);
  if (content !== undefined) made.content = textOf(content, at);
  else if (role !== 'assistant' || !(made.tool_calls || thoughts !== undefined)) throw usage('content must be a text', at);
  // Templates that know neither name leave out what was thought before.
  if (thoughts !== undefined && template.includes('reasoning_content')) made.reasoning_content = thoughts;
  else if (thoughts !== undefined && /\.thinking\b|['"]thinking['"]/.test(template)) made.thinking = thoughts;
  const answers = optional(fields, 'tool_call_id', at);
  if (role === 'tool' && answers === undefined) throw usage('a message of role tool must have tool_call_id', at);
  if (answers !== undefined) made.tool_call_id = answers;
  return made;
}

/** Checks the messages of a conversation, and makes what the template is given. */
export function templateMessages(messages: unknown, template: string): TemplateMessage[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw usage('messages must be an array of at least one message', 'messages');
  }
  return (messages as ChatMessage[]).map((message, i) => messageOf(message, i, template));
}
