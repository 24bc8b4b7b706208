/** What a model is given of a conversation. */

import type { ChatMessage } from 'rlx-wasm';
import type { Attachment, Conversation, Message } from './types.js';

/**
 * The prompt of a conversation. Files stand before their question, fenced, with their names. A model that calls functions
 * reads them itself: it is told their names, and which functions it called before.
 */
export function promptOf({ system, messages }: Conversation, calling = false): ChatMessage[] {
  const prompt: ChatMessage[] = system.trim() === '' ? [] : [{ role: 'system', content: system }];
  let calls = 0;
  for (const message of messages) {
    const { role, text, attachments = [], calls: called = [] } = message;
    if (role === 'user') {
      prompt.push({ role, content: calling ? withNames(text, attachments) : withFiles(text, attachments) });
    } else if (called.length === 0) {
      prompt.push({ role, content: text, ...thoughts(message) });
    } else if (calling) {
      const ids = called.map(() => callId(calls++));
      const tool_calls = called.map(({ name, arguments: given }, i) => ({
        id: ids[i]!,
        type: 'function' as const,
        function: { name, arguments: given },
      }));
      prompt.push({ role, content: text, tool_calls, ...thoughts(message) });
      for (const [i, { name, result }] of called.entries())
        prompt.push({ role: 'tool', tool_call_id: ids[i]!, name, content: result });
    } else if (text !== '') {
      prompt.push({ role, content: text });
    }
  }
  return prompt;
}

const thoughts = ({ reasoning }: Message) => (reasoning === undefined ? {} : { reasoning_content: reasoning });

/** Nine letters and digits, which every template takes; the same each time, so that a prompt goes on with the last one. */
const callId = (n: number) => `call${String(n).padStart(5, '0')}`;

export function withFiles(question: string, files: readonly Attachment[]): string {
  return [...files.map(fenced), question].join('\n\n');
}

function withNames(question: string, files: readonly Attachment[]): string {
  if (files.length === 0) return question;
  const names = files.map(({ name, text }) => `${plain(name)} (${text.length} characters)`);
  return `Documents to read by read_document: ${names.join(', ')}\n\n${question}`;
}

/** A file between fences that are longer than any that it has. */
function fenced({ name, text }: Attachment): string {
  let longest = 2;
  for (const [fence] of text.matchAll(/`{3,}/g)) longest = Math.max(longest, fence.length);
  const fence = '`'.repeat(longest + 1);
  return `${plain(name)}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}`;
}

const plain = (name: string) => name.replace(/[\r\n`]/g, ' ');
