/** An answer that has the form of a JSON schema. */

import { signal } from '@preact/signals';
import { RlxError } from 'rlx-wasm';
import { failureOf, loaded } from '../state/engine.js';
import type { Failure } from '../state/engine.js';

const MOST_TOKENS = 400;

/** Forms to begin with. */
export const EXAMPLES: { readonly [name: string]: { question: string; schema: object } } = {
  'A summary': {
    question: 'What does Vec::push do?',
    schema: {
      type: 'object',
      properties: {
        title: { type: 'string', maxLength: 60 },
        summary: { type: 'string', maxLength: 200 },
        difficulty: { enum: ['easy', 'medium', 'hard'] },
      },
      required: ['title', 'summary', 'difficulty'],
      additionalProperties: false,
    },
  },
  'A list': {
    question: 'Which methods does Option have?',
    schema: {
      type: 'object',
      properties: { names: { type: 'array', items: { type: 'string', maxLength: 30 }, minItems: 3, maxItems: 3 } },
      required: ['names'],
      additionalProperties: false,
    },
  },
  'Yes or no': {
    question: 'Is a String on the heap?',
    schema: {
      type: 'object',
      properties: { answer: { type: 'boolean' }, sure: { type: 'integer', minimum: 0, maximum: 100 } },
      required: ['answer', 'sure'],
      additionalProperties: false,
    },
  },
};

export interface Written {
  /** As the model wrote it. */
  text: string;
  /** It was read as JSON and is printed with indents; absent while it is written, or where it was ended early. */
  json?: string;
  end?: 'stopped' | 'length';
}

const first = Object.values(EXAMPLES)[0]!;
export const question = signal(first.question);
export const schema = signal(JSON.stringify(first.schema, null, 2));
export const written = signal<Written | undefined>(undefined);
export const writing = signal(false);
export const formFailure = signal<Failure | undefined>(undefined);

let abort: AbortController | undefined;

export function begin(name: string): void {
  const example = EXAMPLES[name];
  if (!example) return;
  question.value = example.question;
  schema.value = JSON.stringify(example.schema, null, 2);
}

export const stop = (): void => abort?.abort();

export async function answer(): Promise<void> {
  if (!loaded.value || writing.value) return;
  const { engine, source } = loaded.value;
  formFailure.value = undefined;
  let wanted: unknown;
  try {
    wanted = JSON.parse(schema.value);
  } catch (error) {
    formFailure.value = {
      what: `The schema is not JSON: ${(error as Error).message}.`,
      hint: 'Correct it, or begin with an example.',
    };
    return;
  }
  const own = (abort = new AbortController());
  const now: Written = { text: '' };
  writing.value = true;
  written.value = { ...now };
  try {
    const chunks = await engine.chat.completions.create({
      messages: [{ role: 'user', content: question.value }],
      ...source.settings,
      max_tokens: MOST_TOKENS,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', schema: wanted as { [key: string]: unknown } },
      },
      stream: true,
      signal: own.signal,
    });
    for await (const { choices } of chunks) {
      now.text += choices[0]?.delta.content ?? '';
      if (choices[0]?.finish_reason === 'length') now.end = 'length';
      written.value = { ...now };
    }
    if (now.end === undefined) now.json = JSON.stringify(JSON.parse(now.text), null, 2);
  } catch (error) {
    if (error instanceof RlxError && (error.code === 'cancelled' || error.code === 'disposed')) now.end = 'stopped';
    else formFailure.value = failureOf(error);
  }
  written.value = now.text === '' && formFailure.value ? undefined : { ...now };
  writing.value = false;
}
