/** gpt-oss's answers: messages in channels. `analysis` is thought, `final` is text, `to=functions.f` is a call. */

import type { AnswerReader, Delta } from './answer.js';
import { firstMark } from './marks.js';

const [START, CHANNEL, MESSAGE, CONSTRAIN] = ['<|start|>', '<|channel|>', '<|message|>', '<|constrain|>'];
const ENDS = ['<|end|>', '<|call|>', '<|return|>', START];
const MARKS = [...ENDS, CHANNEL, MESSAGE, CONSTRAIN];

export class Channels implements AnswerReader {
  /** Null inside a message's header. */
  #kind: 'text' | 'thought' | 'call' | null = null;
  #held = '';
  /** The header so far; inside a call the whole message. */
  #header = '';
  #body = '';
  #called = '';

  /** `calls`: whether functions were given. */
  constructor(promptEnd: string, private readonly calls: boolean) {
    // The prompt ends inside the first header, or behind it.
    const from = promptEnd.lastIndexOf(START);
    const header = from < 0 ? '' : promptEnd.slice(from);
    const at = header.indexOf(MESSAGE);
    this.#header = at < 0 ? header : header.slice(0, at);
    if (at >= 0) this.#begin();
  }

  push(piece: string, control: boolean): Delta[] {
    if (control && !MARKS.includes(piece)) return [];
    this.#held += piece;
    const out: Delta[] = [];
    for (;;) {
      const { at, mark } = firstMark(this.#held, this.#kind === null ? [MESSAGE] : ENDS);
      this.#take(this.#held.slice(0, at), out);
      this.#held = this.#held.slice(at);
      if (mark === undefined) return out;
      this.#held = this.#held.slice(mark.length);
      if (mark === MESSAGE) {
        this.#begin();
      } else {
        this.#close(mark, out);
        this.#header = mark === START ? START : '';
      }
    }
  }

  end(): Delta[] {
    const out: Delta[] = [];
    this.#take(this.#held, out);
    this.#held = '';
    // The token that ends a call is not part of the answer. A header alone says nothing.
    this.#close('', out);
    return out;
  }

  #begin(): void {
    const to = /\bto=functions\.([^\s<]+)/.exec(this.#header)?.[1];
    const channel = /<\|channel\|>\s*(\w+)/.exec(this.#header)?.[1];
    this.#called = to ?? '';
    this.#body = '';
    if (to !== undefined && this.calls) this.#kind = 'call';
    else this.#kind = channel === 'analysis' ? 'thought' : 'text';
  }

  #take(text: string, out: Delta[]): void {
    if (text === '') return;
    if (this.#kind === null) this.#header += text;
    else if (this.#kind === 'call') this.#body += text;
    else out.push(this.#kind === 'thought' ? { thought: text } : { text });
  }

  /** Ends a message. A call that is no JSON is given back as it came. */
  #close(mark: string, out: Delta[]): void {
    if (this.#kind === 'call') {
      const given = this.#body.trim() || '{}';
      if (isObject(given)) out.push({ call: { name: this.#called, arguments: given } });
      else out.push({ text: this.#header + MESSAGE + this.#body + (mark === START ? '' : mark) });
    }
    this.#kind = null;
    this.#header = '';
  }
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
