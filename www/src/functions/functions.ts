/**
 * The functions that a model may call. What it calls them with is its own: names and arguments are checked, results are
 * bounded, and what goes wrong is a result too, which the model can read.
 */

import type { ChatTool } from 'rlx-wasm';
import type { Attachment, Call } from '../state/types.js';
import { calculate, NotCalculated } from './calculate.js';
import { NotRead, readDocument } from './documents.js';

export { documentsOf } from './documents.js';

/** Characters of the names of documents that the model is told. */
const MOST_NAMES = 500;
const MOST_ARGUMENTS = 10_000;
/** Characters of a name that are kept. */
const MOST_NAME = 64;
/** Functions that a model may call at once. */
const MOST_CALLS = 8;

/** Arguments that a function does not take, as a sentence for who gave them. */
class NotTaken extends Error {}

type Given = { readonly [name: string]: unknown };

interface Described {
  name: string;
  description: (documents: readonly Attachment[]) => string;
  properties: { [name: string]: { type: 'string' | 'integer'; description: string; minimum?: number } };
  required: readonly string[];
  run(given: Given, documents: readonly Attachment[]): string;
}

const FUNCTIONS: readonly Described[] = [
  {
    name: 'calculate',
    description: () => 'Calculates the value of an arithmetic expression. Use it for every calculation.',
    properties: { expression: { type: 'string', description: 'For example (3 + 4) * 2 ^ 5 or sqrt(2) or 15% * 80' } },
    required: ['expression'],
    run: (given) => calculate(text(given, 'expression') ?? ''),
  },
  {
    name: 'read_document',
    description: (documents) =>
      `Reads a part of a document. Documents: ${documents
        .map(({ name }) => name)
        .reverse()
        .join(', ')
        .slice(0, MOST_NAMES)}`,
    properties: {
      name: { type: 'string', description: 'The name of the document' },
      query: { type: 'string', description: 'Words to look for: the part that has most of them is read' },
      part: { type: 'integer', minimum: 1, description: 'The number of the part to read, if there is no query' },
    },
    required: [],
    run: (given, documents) =>
      readDocument(documents, { name: text(given, 'name'), query: text(given, 'query'), part: count(given, 'part') }),
  },
  {
    name: 'current_time',
    description: () => 'Tells the date and time where the user is.',
    properties: {},
    required: [],
    run: () => time(new Date()),
  },
];

function time(now: Date): string {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const local = now.toLocaleString('en-GB', { dateStyle: 'full', timeStyle: 'medium' });
  return `${local} (${timeZone}); UTC: ${now.toISOString()}`;
}

function text(given: Given, name: string): string | undefined {
  const value = own(given, name);
  if (value === undefined || typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  throw new NotTaken(`${name} must be a text.`);
}

function count(given: Given, name: string): number | undefined {
  const value = own(given, name);
  if (value === undefined) return undefined;
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number === 'number' && Number.isInteger(number) && number >= 1) return number;
  throw new NotTaken(`${name} must be a whole number, 1 or more.`);
}

/** What was given under a name, and not what all objects have; null is nothing. */
const own = (given: Given, name: string) => (Object.hasOwn(given, name) ? (given[name] ?? undefined) : undefined);

/** The functions as a request has them. */
export const toolsFor = (documents: readonly Attachment[]): ChatTool[] =>
  FUNCTIONS.map(({ name, description, properties, required }) => ({
    type: 'function',
    function: {
      name,
      description: description(documents),
      parameters: { type: 'object', properties, required, additionalProperties: false },
    },
  }));

/** Calls one function. Never throws for what a model wrote, and keeps no arguments that no prompt takes. */
export function call(name: string, given: string, documents: readonly Attachment[]): Call {
  const called = { name: name.slice(0, MOST_NAME), arguments: '{}' };
  try {
    const value = objectOf(given);
    called.arguments = given === '' ? '{}' : given;
    return { ...called, result: run(name, value, documents) };
  } catch (error) {
    if (!(error instanceof NotTaken || error instanceof NotCalculated || error instanceof NotRead)) throw error;
    return { ...called, result: `Error: ${error.message}`, failed: true };
  }
}

function objectOf(given: string): Given {
  if (given.length > MOST_ARGUMENTS)
    throw new NotTaken(`The arguments are longer than ${MOST_ARGUMENTS.toLocaleString('en')} characters.`);
  let value: unknown;
  try {
    value = JSON.parse(given === '' ? '{}' : given);
  } catch {
    throw new NotTaken('The arguments are not JSON.');
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Given;
  throw new NotTaken('The arguments are not a JSON object.');
}

function run(name: string, given: Given, documents: readonly Attachment[]): string {
  const found = FUNCTIONS.find((each) => each.name === name);
  if (!found) {
    const names = FUNCTIONS.map((each) => each.name).join(', ');
    throw new NotTaken(`There is no function “${name.slice(0, MOST_NAME)}”. There are: ${names}.`);
  }
  for (const each of found.required) if (own(given, each) === undefined) throw new NotTaken(`${each} is missing.`);
  return found.run(given, documents);
}

/** Calls the functions of one round. Of those that are too many one is kept, with the reason. */
export function callAll(
  calls: readonly { name: string; arguments: string }[],
  documents: readonly Attachment[],
): Call[] {
  const made = calls.slice(0, MOST_CALLS).map(({ name, arguments: given }) => call(name, given, documents));
  const next = calls[MOST_CALLS];
  if (next) {
    const result = `Error: at most ${MOST_CALLS} functions are called at once.`;
    made.push({ name: next.name.slice(0, MOST_NAME), arguments: '{}', result, failed: true });
  }
  return made;
}
