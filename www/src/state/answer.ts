/** Asking the model: the answer as it comes, stopping it, asking again. One answer runs at a time. */

import { batch, computed, signal } from '@preact/signals';
import { RlxError } from 'rlx-wasm';
import type { ChatMessage, Usage } from 'rlx-wasm';
import { addMessages, begin, change, current, dropFrom, setMessage, show } from './conversations.js';
import { failureOf, loaded, ready } from './engine.js';
import { newId } from './types.js';
import type { Attachment, Conversation, Message, Speed } from './types.js';

/** How often a running answer is stored, in milliseconds. */
const STORE_EVERY = 2000;

/** The answer that is being written; its message in the conversation follows some seconds behind. */
export const running = signal<Message | undefined>(undefined);
export const busy = computed(() => running.value !== undefined);
export const canAsk = computed(() => ready.value && !busy.value);
/** The last answer that ended, for who listens to the page. */
export const finished = signal<Message | undefined>(undefined);

let abort: AbortController | undefined;

/** The prompt of a conversation: files stand before their question, fenced, with their names. */
export function promptOf({ system, messages }: Conversation): ChatMessage[] {
  const prompt: ChatMessage[] = system.trim() === '' ? [] : [{ role: 'system', content: system }];
  for (const { role, text, reasoning, attachments = [] } of messages) {
    const content = role === 'user' ? withFiles(text, attachments) : text;
    prompt.push({ role, content, ...(reasoning !== undefined && { reasoning_content: reasoning }) });
  }
  return prompt;
}

export function withFiles(question: string, files: readonly Attachment[]): string {
  return [...files.map(fenced), question].join('\n\n');
}

/** A file between fences that are longer than any that it has. */
function fenced({ name, text }: Attachment): string {
  let longest = 2;
  for (const [fence] of text.matchAll(/`{3,}/g)) longest = Math.max(longest, fence.length);
  const fence = '`'.repeat(longest + 1);
  return `${name.replace(/[\r\n`]/g, ' ')}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}`;
}

export async function ask(text: string, attachments: readonly Attachment[] = []): Promise<void> {
  if (!canAsk.value) return;
  const question: Message = { id: newId(), role: 'user', text, ...(attachments.length > 0 && { attachments }) };
  addMessages(current.value.id, question);
  await answer();
}

/** Asks the question of an answer again. What is behind it is dropped. */
export async function retry(id: string): Promise<void> {
  if (!canAsk.value) return;
  if (dropFrom(current.value.id, id)) await answer();
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

async function answer(): Promise<void> {
  const { engine, source } = loaded.value!;
  const { id, settings } = current.value;
  const messages = promptOf(current.value);
  const own = (abort = new AbortController());
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
    const request = { messages, ...source.settings, ...settings, stream: true as const, signal: own.signal };
    for await (const {
      choices: [choice],
      usage: counted,
    } of await engine.chat.completions.create(request)) {
      usage = counted ?? usage;
      if (!choice) continue;
      message.text += choice.delta.content ?? '';
      if (choice.delta.reasoning_content)
        message.reasoning = (message.reasoning ?? '') + choice.delta.reasoning_content;
      if (choice.delta.content || choice.delta.reasoning_content) pace.piece();
      if (choice.finish_reason === 'length') message.end = 'length';
    }
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
  if (message.end === 'length' && message.speed.tokens < (settings.max_tokens ?? Infinity)) message.end = 'context';
  batch(() => {
    setMessage(id, { ...message });
    running.value = undefined;
    finished.value = message;
  });
}

const sentence = (text: string) => `${text[0]!.toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

/** The speed as the engine measured it. */
function exact(usage: Usage | undefined): Speed | undefined {
  if (!usage?.extra) return undefined;
  const { time_to_first_token_s: first, decode_tokens_per_s: rate } = usage.extra;
  return { tokens: usage.completion_tokens, firstTokenMs: first === null ? null : first * 1000, tokensPerSecond: rate };
}

/** Counts the pieces of an answer, and shows them at most once a frame. */
class Pace {
  readonly #start = performance.now();
  readonly #show: (speed: Speed) => void;
  readonly #store: () => void;
  #first: number | undefined;
  #last = 0;
  #pieces = 0;
  #frame = 0;
  #stored = performance.now();

  constructor(show: (speed: Speed) => void, store: () => void) {
    this.#show = show;
    this.#store = store;
  }

  piece(): void {
    this.#last = performance.now();
    this.#first ??= this.#last;
    this.#pieces += 1;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#show(this.speed());
    });
    if (this.#last - this.#stored < STORE_EVERY) return;
    this.#stored = this.#last;
    this.#store();
  }

  end(): void {
    cancelAnimationFrame(this.#frame);
  }

  speed(): Speed {
    const first = this.#first;
    if (first === undefined) return { tokens: 0, firstTokenMs: null, tokensPerSecond: null };
    const seconds = (this.#last - first) / 1000;
    return {
      tokens: this.#pieces,
      firstTokenMs: first - this.#start,
      tokensPerSecond: seconds > 0 ? (this.#pieces - 1) / seconds : null,
    };
  }
}
