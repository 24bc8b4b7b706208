/** The documents of a chat: the text files of its questions, and what this page says of itself. Read in parts. */

import type { Attachment, Conversation } from '../state/types.js';

/** Characters of a part, at most. */
const PART = 2000;
const MOST_WORDS = 20;

/** A document that cannot be read as it was asked for, as a sentence for who asked. */
export class NotRead extends Error {}

const ABOUT: Attachment = {
  name: 'about-this-page.md',
  text: `# About this page

A language model runs in this page. It runs on the visitor's own device: on the graphics card by WebGPU, or on the
processor. Nothing that is written here leaves the device. RLX is the name of the software: a compiler and runtime for
neural networks, written in Rust.

## Models

The page begins with rustdoc-29m, a small model with 29 million parameters that knows the Rust standard library. The
button with the model's name opens a list of others. A model may also be a GGUF file from the device, dropped on the
page, an address, or the name of a repository of the Hugging Face Hub. Models are kept by the browser, and can be
removed in the same place.

## Chats

Chats are kept in this browser. They can be renamed, deleted, exported to a file and imported from one. Text files can be
attached to a question. An answer can be stopped, copied and asked for again, and a question can be changed.

## Settings

Each chat has a system prompt and its own settings: temperature, top p, top k, min p, a penalty for repetition, the
longest answer and a seed. Here the model may be allowed to use functions: it can calculate, read documents and ask for
the time.

## Looking inside

“Inspect” shows what the compiler makes of the model: its stages, fusions, shaders and memory.
`,
};

/** A later file stands for an earlier one of its name. */
export function documentsOf({ messages }: Pick<Conversation, 'messages'>): Attachment[] {
  const found = new Map([[ABOUT.name, ABOUT]]);
  for (const { attachments = [] } of messages) for (const file of attachments) found.set(file.name, file);
  return [...found.values()];
}

/** A text cut at its lines or blanks. */
export function partsOf(text: string): string[] {
  const parts: string[] = [];
  for (let at = 0; at < text.length || at === 0;) {
    const rest = text.slice(at, at + PART);
    const line = rest.lastIndexOf('\n') + 1;
    const cut = line > PART / 2 ? line : rest.lastIndexOf(' ') + 1;
    const length = at + PART >= text.length || cut <= PART / 2 ? rest.length : cut;
    parts.push(rest.slice(0, length));
    at += Math.max(1, length);
  }
  return parts;
}

const wordsOf = (text: string) => new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);

/** The part that has most of the words, and how many it has. */
function bestPart(parts: readonly string[], query: string): { at: number; has: number } {
  const words = [...wordsOf(query)].slice(0, MOST_WORDS);
  let best = { at: 0, has: 0 };
  parts.forEach((part, at) => {
    const known = wordsOf(part);
    const has = words.filter((word) => known.has(word)).length;
    if (has > best.has) best = { at, has };
  });
  return best;
}

export interface Asked {
  name?: string | undefined;
  query?: string | undefined;
  part?: number | undefined;
}

export function readDocument(documents: readonly Attachment[], { name, query, part }: Asked): string {
  // A call without a name means the visitor's own document, the last one if there are several.
  const file = name === undefined ? documents.at(-1) : documents.find((each) => each.name === name);
  if (!file) {
    const names = documents.map((each) => each.name).join(', ');
    throw new NotRead(`There is no document “${name?.slice(0, 100)}”. There are: ${names.slice(0, 1000)}.`);
  }
  const parts = partsOf(file.text);
  let at = (part ?? 1) - 1;
  if (part === undefined && query !== undefined) {
    const best = bestPart(parts, query);
    if (best.has === 0)
      throw new NotRead(`None of these words is in ${file.name}, which has parts 1 to ${parts.length}.`);
    at = best.at;
  }
  if (parts[at] === undefined) throw new NotRead(`${file.name} has parts 1 to ${parts.length}.`);
  return `${file.name}, part ${at + 1} of ${parts.length}:\n${parts[at]}`;
}
