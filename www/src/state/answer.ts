/** Asking the model: the answer as it comes, stopping it, asking again. One answer runs at a time. */

import { batch, computed, signal } from '@preact/signals';
import { RlxError } from 'rlx-wasm';
import type { Usage } from 'rlx-wasm';
import { addMessages, begin, change, conversation, current, dropFrom, setMessage, show } from './conversations.js';
import { failureOf, loaded, ready, takesFunctions } from './engine.js';
import { exact, Pace } from './pace.js';
import { promptOf } from './prompt.js';
import { newId } from './types.js';
import type { Attachment, Message } from './types.js';

/** Rounds of one answer in which a model may call functions. */
const MOST_ROUNDS = 6;

/** The answer that is being written; its message in the conversation follows some seconds behind. */
export const running = signal<Message | undefined>(undefined);
export const busy = computed(() => running.value !== undefined);
export const canAsk = computed(() => ready.value && !busy.value);
/** The last answer that ended, for who listens to the page. */
export const finished = signal<Message | undefined>(undefined);

let abort: AbortController | undefined;

export async function ask(text: string, attachments: readonly Attachment[] = []): Promise<void> {
  if (!canAsk.value) return;
  const question: Message = { id: newId(), role: 'user', text, ...(attachments.length > 0 && { attachments }) };
  addMessages(current.value.id, question);
  await answer();
}

/** Asks the question of an answer again, with all rounds of it. What is behind it is dropped. */
export async function retry(id: string): Promise<void> {
  if (!canAsk.value) return;
  const { messages } = current.value;
  let first = messages.findIndex((each) => each.id === id);
  while (messages[first - 1]?.calls) first -= 1;
  const from = messages[first];
  if (from && dropFrom(current.value.id, from.id)) await answer();
}

/** Changes a question and asks it. What is behind it is dropped. */
export async function edit(id: string, text: string): Promise<void> {
  const before = current.value.messages.find((each) => each.id === id);
  if (!canAsk.value || !before || !dropFrom(current.value.id, id)) return;
  await ask(text, before.attachments);
}

export const stop = (): void => abort?.abort();

/** Answers belong to the conversation in view: leaving it stops them. */
export function newChat(): void {
  stop();
  begin();
}

export function open(id: string): void {
  if (id === current.value.id) return;
  stop();
  show(id);
}

/** Writes an answer: in rounds, as long as the model calls functions. */
async function answer(): Promise<void> {
  const { id } = current.value;
  const own = (abort = new AbortController());
  const calling = current.value.functions && takesFunctions.value;
  for (let rounds = 1; ; rounds += 1) {
    const message = await round(id, calling, own.signal);
    if (message.calls && !message.end) {
      if (own.signal.aborted || !ready.value || !conversation(id)) message.end = 'stopped';
      else if (rounds === MOST_ROUNDS) message.end = 'calls';
    }
    setMessage(id, { ...message });
    if (message.calls && !message.end) continue;
    batch(() => {
      running.value = undefined;
      finished.value = message;
    });
    return;
  }
}

/** One call of the engine, and of the functions that the model asks for. */
async function round(id: string, calling: boolean, signal: AbortSignal): Promise<Message> {
  const { engine, source } = loaded.value!;
  const asked = conversation(id)!;
  const message: Message = { id: newId(), role: 'assistant', text: '' };
  batch(() => {
    addMessages(id, message);
    change(id, (it) => ({ ...it, model: source.name }));
    running.value = { ...message };
  });
  const pace = new Pace(
    (speed) => (running.value = { ...message, speed }),
    () => setMessage(id, { ...message, speed: pace.speed() }),
  );
  let usage: Usage | undefined;
  try {
    const functions = calling ? await import('../functions/functions.js') : undefined;
    const documents = functions?.documentsOf(asked) ?? [];
    const request = {
      messages: promptOf(asked, calling),
      ...(functions && { tools: functions.toolsFor(documents) }),
      ...source.settings,
      ...asked.settings,
      stream: true as const,
      signal,
    };
    const calls: { name: string; arguments: string }[] = [];
    for await (const {
      choices: [choice],
      usage: counted,
    } of await engine.chat.completions.create(request)) {
      usage = counted ?? usage;
      if (!choice) continue;
      const { content, reasoning_content: thought, tool_calls: called = [] } = choice.delta;
      message.text += content ?? '';
      if (thought) message.reasoning = (message.reasoning ?? '') + thought;
      calls.push(...called.map((each) => each.function));
      if (content || thought) pace.piece();
      if (choice.finish_reason === 'length') message.end = 'length';
    }
    if (functions && calls.length > 0) message.calls = functions.callAll(calls, documents);
  } catch (error) {
    if (error instanceof RlxError && (error.code === 'cancelled' || error.code === 'disposed')) message.end = 'stopped';
    else {
      message.end = 'failed';
      const { what, hint } = failureOf(error);
      message.fault = [what, hint].filter(Boolean).map(sentence).join(' ');
    }
  }
  pace.end();
  message.speed = exact(usage) ?? pace.speed();
  if (message.end === 'length' && message.speed.tokens < (asked.settings.max_tokens ?? Infinity))
    message.end = 'context';
  return message;
}

const sentence = (text: string) => `${text[0]!.toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
