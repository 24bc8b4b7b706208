/**
 * The conversations, and which of them is in view. They are kept in the browser's storage; a new one from its first
 * message on.
 */

import { computed, signal } from '@preact/signals';
import { say } from './news.js';
import { open } from './store.js';
import type { Store } from './store.js';
import { newId } from './types.js';
import type { Conversation, Message } from './types.js';

const TITLE_LENGTH = 60;
const UNTITLED = 'New chat';

/** All that have a message, the last used one first. */
export const conversations = signal<readonly Conversation[]>([]);
/** The one in view; as long as it has no message it is not among `conversations`. */
export const current = signal<Conversation>(empty());
export const isNew = computed(() => current.value.messages.length === 0);

let store: Promise<Store | undefined> | undefined;

function empty(): Conversation {
  const now = Date.now();
  return {
    id: newId(),
    title: UNTITLED,
    created: now,
    updated: now,
    model: '',
    system: '',
    settings: {},
    functions: false,
    messages: [],
  };
}

/** Reads what is stored; what was said meanwhile stays. */
export async function restore(): Promise<void> {
  store = open();
  const opened = await store;
  let found: Conversation[] | undefined;
  try {
    found = await opened?.all();
  } catch {
    // Told below: a store that cannot be read keeps nothing.
  }
  if (!found) {
    store = Promise.resolve(undefined);
    return say(
      'This browser stores nothing for this page, so conversations are gone when it is closed. You can export them.',
    );
  }
  const known = new Set(conversations.value.map(({ id }) => id));
  conversations.value = sorted([...conversations.value, ...found.filter(({ id }) => !known.has(id))]);
}

const sorted = (all: readonly Conversation[]) => [...all].sort((a, b) => b.updated - a.updated);

let storing: Promise<unknown> = Promise.resolve();

/** Resolves once everything until now is stored, or could not be. */
export const stored = (): Promise<unknown> => storing;

function keep(work: (store: Store) => Promise<void>): void {
  storing = Promise.all([storing, put(work)]);
}

async function put(work: (store: Store) => Promise<void>): Promise<void> {
  const opened = await store;
  if (!opened) return;
  try {
    await work(opened);
  } catch {
    say('A conversation could not be stored: the browser may have no room left.');
  }
}

/** The conversation with this id; undefined once it was deleted. */
export function conversation(id: string): Conversation | undefined {
  return current.value.id === id ? current.value : conversations.value.find((each) => each.id === id);
}

/** Changes a conversation and stores it, if it has a message; `touch` makes it the last used one. */
export function change(id: string, update: (conversation: Conversation) => Conversation, touch = true): void {
  const before = conversation(id);
  if (!before) return; // it was deleted
  const after = { ...update(before), ...(touch && { updated: Date.now() }) };
  if (current.value.id === id) current.value = after;
  if (after.messages.length === 0) return;
  conversations.value = sorted([after, ...conversations.value.filter((each) => each.id !== id)]);
  keep((opened) => opened.put(after));
}

export function addMessages(id: string, ...messages: Message[]): void {
  change(id, (it) => ({
    ...it,
    title: it.title === UNTITLED ? titleOf(messages[0]?.text ?? '') : it.title,
    messages: [...it.messages, ...messages],
  }));
}

export function setMessage(id: string, message: Message): void {
  change(id, (it) => ({ ...it, messages: it.messages.map((each) => (each.id === message.id ? message : each)) }));
}

/** Drops a message and what is behind it. A title that was the first question's goes with it. */
export function dropFrom(id: string, message: string): boolean {
  const { messages } = current.value;
  const at = current.value.id === id ? messages.findIndex((each) => each.id === message) : -1;
  if (at < 0) return false;
  const untitled = at === 0 && current.value.title === titleOf(messages[0]!.text);
  change(id, (it) => ({ ...it, title: untitled ? UNTITLED : it.title, messages: messages.slice(0, at) }));
  return true;
}

/** The first words of a question. */
export function titleOf(question: string): string {
  const line = question.trim().replace(/\s+/g, ' ');
  return line.length <= TITLE_LENGTH ? line || 'Untitled' : `${line.slice(0, TITLE_LENGTH).replace(/\s\S*$/, '')}…`;
}

/** Begins another conversation, with the system prompt, settings and functions of the present one. */
export function begin(): void {
  const { system, settings, functions } = current.value;
  current.value = { ...empty(), system, settings, functions };
}

export function show(id: string): void {
  const found = conversations.value.find((each) => each.id === id);
  if (found) current.value = found;
}

export function rename(id: string, title: string): void {
  if (title.trim() !== '') change(id, (it) => ({ ...it, title: title.trim().slice(0, 2 * TITLE_LENGTH) }), false);
}

export function remove(id: string): void {
  const gone = conversations.value.find((each) => each.id === id);
  if (!gone) return;
  conversations.value = conversations.value.filter((each) => each.id !== id);
  if (current.value.id === id) begin();
  keep((opened) => opened.delete(id));
  say(`Deleted “${gone.title}”.`, { label: 'Undo', run: () => add([gone]) });
}

/** Adds imported conversations, or one that was deleted. One whose name is taken gets another. */
export function add(all: readonly Conversation[]): void {
  const taken = new Set(conversations.value.map(({ id }) => id));
  const added = all
    .filter(({ messages }) => messages.length > 0)
    .map((each) => {
      const named = taken.has(each.id) ? { ...each, id: newId() } : each;
      taken.add(named.id);
      return named;
    });
  conversations.value = sorted([...conversations.value, ...added]);
  for (const each of added) keep((opened) => opened.put(each));
}
