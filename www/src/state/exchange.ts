/** Conversations as JSON. What is read may be anything: it is checked, bounded, and copied field by field. */

import { validSettings } from './settings.js';
import { ENDS, newId } from './types.js';
import type { Attachment, Call, Conversation, End, Message, Speed } from './types.js';

const FORMAT = 'rlx-conversations';
const VERSION = 1;
export const MOST_BYTES = 32_000_000;
const MOST_CONVERSATIONS = 1000;
const MOST_MESSAGES = 5000;
const MOST_CHARACTERS = 2_000_000;
const MOST_ATTACHMENTS = 20;
const MOST_CALLS = 100;
const LONGEST_TITLE = 120;
const LONGEST_NAME = 64;

/** A file that is not conversations, with a sentence for its reader. */
export class NotConversations extends Error {}

export function exportText(conversations: readonly Conversation[]): string {
  return `${JSON.stringify({ format: FORMAT, version: VERSION, conversations }, null, 2)}\n`;
}

/** The conversations of an exported text, or `NotConversations`. */
export function importText(text: string): Conversation[] {
  if (text.length > MOST_BYTES) throw new NotConversations(`The file is larger than ${MOST_BYTES / 1e6} MB.`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new NotConversations('The file is not JSON.');
  }
  if (!isObject(value) || value['format'] !== FORMAT)
    throw new NotConversations('The file was not exported by this page.');
  if (value['version'] !== VERSION)
    throw new NotConversations(
      `The file has version ${String(value['version']).slice(0, 20)}, and this page reads version ${VERSION}.`,
    );
  const all = value['conversations'];
  if (!Array.isArray(all)) throw new NotConversations('The file has no list of conversations.');
  if (all.length > MOST_CONVERSATIONS)
    throw new NotConversations(`The file has more than ${MOST_CONVERSATIONS} conversations.`);
  return all.map((each, i) => conversationOf(each, `Conversation ${i + 1}`));
}

/** A conversation of a value that came from outside, such as a store that an older page wrote. */
export function conversationOf(value: unknown, where: string): Conversation {
  if (!isObject(value)) throw new NotConversations(`${where} is not an object.`);
  const messages = value['messages'];
  if (!Array.isArray(messages)) throw new NotConversations(`${where} has no messages.`);
  if (messages.length > MOST_MESSAGES) throw new NotConversations(`${where} has more than ${MOST_MESSAGES} messages.`);
  const created = date(value['created']);
  return {
    id: typeof value['id'] === 'string' && /^[\w-]{1,64}$/.test(value['id']) ? value['id'] : newId(),
    title: text(value['title'] ?? 'Untitled', `The title of ${where.toLowerCase()}`).slice(0, LONGEST_TITLE),
    created,
    updated: Math.max(created, date(value['updated'])),
    model: text(value['model'] ?? '', `The model of ${where.toLowerCase()}`).slice(0, LONGEST_TITLE),
    system: text(value['system'] ?? '', `The system prompt of ${where.toLowerCase()}`),
    settings: validSettings(value['settings']),
    functions: value['functions'] === true,
    messages: messages.map((each, i) => messageOf(each, `Message ${i + 1} of ${where.toLowerCase()}`)),
  };
}

function messageOf(value: unknown, where: string): Message {
  if (!isObject(value)) throw new NotConversations(`${where} is not an object.`);
  const { role } = value;
  if (role !== 'user' && role !== 'assistant')
    throw new NotConversations(`${where} is by neither the user nor the assistant.`);
  const message: Message = { id: newId(), role, text: text(value['text'], `The text of ${where.toLowerCase()}`) };
  if (value['reasoning'] !== undefined)
    message.reasoning = text(value['reasoning'], `The reasoning of ${where.toLowerCase()}`);
  if (value['attachments'] !== undefined) message.attachments = attachmentsOf(value['attachments'], where);
  if (role === 'assistant' && value['calls'] !== undefined) message.calls = callsOf(value['calls'], where);
  if (ENDS.includes(value['end'] as End)) message.end = value['end'] as End;
  if (message.end === 'failed') message.fault = text(value['fault'] ?? '', `The fault of ${where.toLowerCase()}`);
  const speed = speedOf(value['speed']);
  if (speed) message.speed = speed;
  return message;
}

function attachmentsOf(value: unknown, where: string): Attachment[] {
  if (!Array.isArray(value) || value.length > MOST_ATTACHMENTS)
    throw new NotConversations(`${where} has attachments that are no list of at most ${MOST_ATTACHMENTS}.`);
  return value.map((each) => {
    if (!isObject(each)) throw new NotConversations(`${where} has an attachment that is not an object.`);
    const what = `An attachment of ${where.toLowerCase()}`;
    return { name: text(each['name'], what).slice(0, LONGEST_TITLE), text: text(each['text'], what) };
  });
}

function callsOf(value: unknown, where: string): Call[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > MOST_CALLS)
    throw new NotConversations(`${where} has calls that are no list of 1 to ${MOST_CALLS}.`);
  return value.map((each) => {
    if (!isObject(each)) throw new NotConversations(`${where} has a call that is not an object.`);
    const what = `A call of ${where.toLowerCase()}`;
    const given = text(each['arguments'], what);
    if (!isObject(parsed(given))) throw new NotConversations(`${what} has arguments that are not a JSON object.`);
    return {
      name: text(each['name'], what).slice(0, LONGEST_NAME),
      arguments: given,
      result: text(each['result'], what),
      ...(each['failed'] === true && { failed: true }),
    };
  });
}

/** The value of a JSON text; undefined if it is none. */
function parsed(given: string): unknown {
  try {
    return JSON.parse(given);
  } catch {
    return undefined;
  }
}

function speedOf(value: unknown): Speed | undefined {
  if (!isObject(value)) return undefined;
  const number = (each: unknown) => (typeof each === 'number' && Number.isFinite(each) && each >= 0 ? each : null);
  const tokens = number(value['tokens']);
  if (tokens === null) return undefined;
  return { tokens, firstTokenMs: number(value['firstTokenMs']), tokensPerSecond: number(value['tokensPerSecond']) };
}

function text(value: unknown, what: string): string {
  if (typeof value !== 'string') throw new NotConversations(`${what} is not a text.`);
  if (value.length > MOST_CHARACTERS)
    throw new NotConversations(`${what} is longer than ${MOST_CHARACTERS.toLocaleString('en')} characters.`);
  return value;
}

/** Milliseconds since 1970; the present where there is no such number. */
function date(value: unknown): number {
  return typeof value === 'number' && value >= 0 && value <= 8.64e15 ? value : Date.now();
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
