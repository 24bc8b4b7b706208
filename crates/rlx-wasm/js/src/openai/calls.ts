/** Reads the calls that models write, each form by its own rules. What does not read is no call: it stays text. */

import type { ChatTool } from './types.js';

/** A function's name, and its arguments as JSON. */
export interface Called {
  name: string;
  arguments: string;
}

/** Reads all of a text as calls; null if it is anything else. */
export type ReadCalls = (text: string, tools: readonly ChatTool[]) => Called[] | null;

/** Lists and objects inside each other, at most. */
const DEPTH = 64;

class Unread extends Error {}

/** A reader of values that are not quite JSON: Python's, and Gemma's. */
class Reader {
  at = 0;
  constructor(readonly text: string) {}

  /** Whether the text goes on with `word`, which is then behind. */
  takes(word: string): boolean {
    if (!this.text.startsWith(word, this.at)) return false;
    this.at += word.length;
    return true;
  }

  need(word: string): void {
    this.blanks();
    if (!this.takes(word)) throw new Unread();
  }

  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    this.at += found?.length ?? 0;
    return found;
  }

  blanks(): void {
    this.match(/\s*/y);
  }

  name(): string {
    this.blanks();
    const found = this.match(/[\p{L}_][\p{L}\p{N}_.-]*/uy);
    if (found === undefined) throw new Unread();
    return found;
  }

  /** The text up to `end`, which is then behind. */
  until(end: string): string {
    const to = this.text.indexOf(end, this.at);
    if (to < 0) throw new Unread();
    const found = this.text.slice(this.at, to);
    this.at = to + end.length;
    return found;
  }

  /** Items up to `end`, with commas between them; the last may have one behind it. */
  items(end: string, item: () => void): void {
    for (;;) {
      this.blanks();
      if (this.takes(end)) return;
      item();
      this.blanks();
      if (this.takes(end)) return;
      this.need(',');
    }
  }

  over(): boolean {
    this.blanks();
    return this.at === this.text.length;
  }
}

const NUMBER = /[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?/y;
const WORDS: { [word: string]: unknown } = { True: true, False: false, None: null, true: true, false: false, null: null };

/** A string in quotes of one kind, with Python's escapes, which JSON's are among. */
function quoted(reader: Reader, quote: string): string {
  let text = '';
  for (;;) {
    const c = reader.text[reader.at++];
    if (c === undefined) throw new Unread();
    if (c === quote) return text;
    if (c !== '\\') {
      text += c;
      continue;
    }
    const escape = reader.text[reader.at++];
    const digits = { x: /[\da-fA-F]{2}/y, u: /[\da-fA-F]{4}/y }[escape ?? ''];
    if (digits) {
      const found = reader.match(digits);
      if (found === undefined) throw new Unread();
      text += String.fromCharCode(parseInt(found, 16));
    } else {
      const known = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', '\n': '' }[escape ?? ''];
      // Python keeps a backslash that begins no escape.
      text += known ?? (escape !== undefined && /[\\'"/]/.test(escape) ? escape : `\\${escape ?? ''}`);
    }
  }
}

/** A value; `mark` encloses strings in Gemma's forms, where keys have no quotes. */
function value(reader: Reader, depth: number, mark?: string): unknown {
  if (depth > DEPTH) throw new Unread();
  reader.blanks();
  if (mark !== undefined && reader.takes(mark)) return reader.until(mark);
  if (reader.takes('"')) return quoted(reader, '"');
  if (mark === undefined && reader.takes("'")) return quoted(reader, "'");
  if (reader.takes('[')) {
    const list: unknown[] = [];
    reader.items(']', () => list.push(value(reader, depth + 1, mark)));
    return list;
  }
  if (reader.takes('{')) return object(reader, depth + 1, mark);
  const number = reader.match(NUMBER);
  if (number !== undefined) return Number(number.replaceAll('_', ''));
  const word = reader.match(/[A-Za-z]+/y);
  if (word !== undefined && Object.hasOwn(WORDS, word)) return WORDS[word];
  throw new Unread();
}

function object(reader: Reader, depth: number, mark?: string): object {
  const entries: [string, unknown][] = [];
  reader.items('}', () => {
    const bare = mark !== undefined && !reader.text.startsWith(mark, reader.at) && reader.text[reader.at] !== '"';
    const key = bare ? reader.until(':').trim() : value(reader, depth, mark);
    if (typeof key !== 'string') throw new Unread();
    if (!bare) reader.need(':');
    entries.push([key, value(reader, depth, mark)]);
  });
  // Also a key such as __proto__ is a member.
  return Object.fromEntries(entries);
}

/** Runs a reader; null where the text is not what it reads. */
function reading(read: () => Called[]): Called[] | null {
  try {
    const calls = read();
    return calls.length > 0 ? calls : null;
  } catch (error) {
    if (error instanceof Unread || error instanceof SyntaxError || error instanceof RangeError) return null;
    throw error;
  }
}

/** A call of an object that has a name, and arguments under one of their names. */
function callOf(value: unknown): Called {
  const { name, arguments: given, parameters } = (value ?? {}) as { [key: string]: unknown };
  const args = given ?? parameters ?? {};
  if (typeof name !== 'string' || name === '' || typeof args !== 'object' || Array.isArray(args)) throw new Unread();
  return { name, arguments: JSON.stringify(args) };
}

/** `{"name", "arguments"}`, or a list of them. */
export const jsonCalls: ReadCalls = (text) => reading(() => {
  const read: unknown = JSON.parse(text);
  return (Array.isArray(read) ? read : [read]).map(callOf);
});

/** The end of the JSON object that begins at `from`. */
function objectEnd(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const c = text[at];
    if (c === '"') {
      for (at++; at < text.length && text[at] !== '"'; at++) if (text[at] === '\\') at++;
    } else if (c === '{') {
      depth++;
    } else if (c === '}' && --depth === 0) {
      return at + 1;
    }
  }
  throw new Unread();
}

/**
 * Llama's: an answer that is nothing but `{"name", "parameters"}`, several with `;` or blanks between; or Python's
 * `tool.call(query="…")`. Nothing marks its begin for sure, so a call is one only of a function that was given.
 */
export const llamaCalls: ReadCalls = (text, tools) => reading(() => {
  const calls: Called[] = [];
  const reader = new Reader(text.replace(/^\s*<\|python_tag\|>/, ''));
  while (!reader.over()) {
    if (reader.text[reader.at] === '{') {
      const end = objectEnd(reader.text, reader.at);
      calls.push(callOf(JSON.parse(reader.text.slice(reader.at, end))));
      reader.at = end;
    } else {
      const { name, arguments: given } = pythonCall(reader);
      calls.push({ name: name.replace(/\.call$/, ''), arguments: given });
    }
    reader.match(/\s*[;,]?/y);
  }
  if (!calls.every(({ name }) => tools.some((tool) => tool.function?.name === name))) throw new Unread();
  return calls;
});

function pythonCall(reader: Reader): Called {
  const name = reader.name();
  const entries: [string, unknown][] = [];
  reader.need('(');
  reader.items(')', () => {
    const key = reader.name();
    reader.need('=');
    entries.push([key, value(reader, 0)]);
  });
  return { name, arguments: JSON.stringify(Object.fromEntries(entries)) };
}

/** LFM2's: a list of Python's calls, `[f(a="x"), g()]`, or of JSON's. */
export const pythonCalls: ReadCalls = (text, tools) => reading(() => {
  const calls: Called[] = [];
  const reader = new Reader(text);
  reader.blanks();
  if (reader.takes('[')) reader.items(']', () => calls.push(pythonCall(reader)));
  else calls.push(pythonCall(reader));
  if (!reader.over()) throw new Unread();
  return calls;
}) ?? jsonCalls(text, tools);

/** Mistral's: a list in JSON, or names each with an object, `f[ARGS]{…}`, in which `[CALL_ID]` may stand. */
export const mistralCalls: ReadCalls = (text, tools) => jsonCalls(text, tools) ?? reading(() => {
  const calls: Called[] = [];
  const reader = new Reader(text);
  while (!reader.over()) {
    reader.takes('[TOOL_CALLS]');
    const name = reader.name();
    if (reader.takes('[CALL_ID]')) reader.match(/\w+/y);
    reader.takes('[ARGS]');
    reader.blanks();
    const end = objectEnd(reader.text, reader.at);
    const given = reader.text.slice(reader.at, end);
    calls.push(callOf({ name, arguments: JSON.parse(given) }));
    reader.at = end;
  }
  return calls;
});

/** Gemma's: `call:f{key:value}`, strings between marks. */
export const gemmaCalls = (mark: string): ReadCalls => (text) => reading(() => {
  const reader = new Reader(text);
  reader.need('call:');
  const name = reader.name();
  reader.need('{');
  const given = object(reader, 0, mark);
  if (!reader.over()) throw new Unread();
  return [{ name, arguments: JSON.stringify(given) }];
});

/**
 * Qwen3-Coder's and Qwen3.5's: `<function=f>` with `<parameter=key>` blocks, whose values are text where the schema says
 * so, else JSON if they are.
 */
const xmlCalls: ReadCalls = (text, tools) => reading(() => {
  const reader = new Reader(text);
  reader.need('<function=');
  const name = reader.until('>').trim();
  const schema = tools.find((tool) => tool.function?.name === name)?.function?.parameters as
    { properties?: { [key: string]: { type?: unknown } } } | undefined;
  const entries: [string, unknown][] = [];
  for (;;) {
    reader.blanks();
    if (reader.takes('</function>')) break;
    reader.need('<parameter=');
    const key = reader.until('>').trim();
    const given = reader.until('</parameter>').replace(/^\r?\n/, '').replace(/\r?\n$/, '');
    entries.push([key, schema?.properties?.[key]?.type === 'string' ? given : jsonOr(given)]);
  }
  if (name === '' || !reader.over()) throw new Unread();
  return [{ name, arguments: JSON.stringify(Object.fromEntries(entries)) }];
});

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Hermes' and Qwen's, in either of their forms. */
export const hermesCalls: ReadCalls = (text, tools) => jsonCalls(text, tools) ?? xmlCalls(text, tools);
