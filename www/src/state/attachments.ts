/** Text files that go with the next question. */

import { signal } from '@preact/signals';
import { current } from './conversations.js';
import { loaded, takesFunctions } from './engine.js';
import { say } from './news.js';
import { withFiles } from './prompt.js';
import type { Attachment } from './types.js';

const MOST = 20;
const MOST_BYTES = 1_000_000;

export const attached = signal<readonly Attachment[]>([]);

export function detach(file: Attachment): void {
  attached.value = attached.value.filter((each) => each !== file);
}

/** Adds files to the next question. One that is no text, or too large for the model's context, is refused with a sentence. */
export async function attach(files: readonly File[]): Promise<void> {
  for (const file of files) {
    const read = await textOf(file);
    const fault = typeof read === 'string' ? read : await tooLong(read);
    if (fault === undefined) attached.value = [...attached.value, read as Attachment];
    else say(fault);
  }
}

async function textOf(file: File): Promise<Attachment | string> {
  if (attached.value.length >= MOST) return `A question takes at most ${MOST} files.`;
  if (file.size > MOST_BYTES) return `“${file.name}” has ${(file.size / 1e6).toFixed(1)} MB, and a file may have 1 MB.`;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes('\0')) return { name: file.name, text: text.replace(/\r\n?/g, '\n') };
  } catch {
    // Not UTF-8: told below.
  }
  return `“${file.name}” is not a text file.`;
}

/** Why the files would not fit the context, with how much would. */
async function tooLong(file: Attachment): Promise<string | undefined> {
  const engine = loaded.value?.engine;
  if (!engine) return undefined; // told by the answer
  if (current.value.functions && takesFunctions.value) return undefined; // the model reads it in parts
  const { contextLength } = engine.info();
  const tokens = await engine.countTokens(withFiles('', [...attached.value, file]));
  if (tokens < contextLength) return undefined;
  const characters = Math.floor((file.text.length * contextLength) / tokens);
  return (
    `“${file.name}” is too long: with it the files have ${tokens.toLocaleString('en')} tokens, and the model’s context has ` +
    `${contextLength.toLocaleString('en')}. About ${characters.toLocaleString('en')} characters would fill it.`
  );
}
