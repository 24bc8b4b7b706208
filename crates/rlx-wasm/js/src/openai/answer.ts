/** Takes an answer apart as it comes: text, thoughts, calls. */

import type { Called } from './calls.js';
import { Channels } from './channels.js';
import type { Form } from './forms.js';
import { firstMark } from './marks.js';
import type { ChatTool } from './types.js';

/** What an answer goes on with. */
export type Delta = { text: string } | { thought: string } | { call: Called };

/** Reads an answer piece by piece. */
export interface AnswerReader {
  /** The next piece; a control token has no text of its own, and is given by its name. */
  push(piece: string, control: boolean): Delta[];
  /** What was held back, when the answer is complete. */
  end(): Delta[];
}

/** All of an answer is text. */
class Plain implements AnswerReader {
  push(piece: string, control: boolean): Delta[] {
    return control ? [] : [{ text: piece }];
  }
  end(): Delta[] {
    return [];
  }
}

/** Whether the template itself has opened the thoughts; their title stands behind the mark. */
export function opensThoughts({ thoughts }: Form, promptEnd: string): boolean {
  return thoughts !== undefined
    && promptEnd.trimEnd().replace(new RegExp(`${thoughts.title ?? ''}$`), '').trimEnd().endsWith(thoughts.open);
}

type Place = 'start' | 'thought' | 'text' | 'call';

/** Thoughts first, if there are any, between two marks; then text with calls. */
class Marked implements AnswerReader {
  #place: Place = 'start';
  /** What is not told yet. */
  #held = '';
  /** How much of it, inside a call, has no closing mark. */
  #seen = 0;
  /** The mark that opened the call, for what turns out to be none. */
  #mark = '';
  #out: Delta[] = [];
  /** Blanks at the text's end so far: before a call they are none of it. */
  #blanks = '';
  /** Whether thoughts have begun, a call has come, and blanks that come stand behind thoughts. */
  #began = false;
  #called = false;
  #behind = false;

  constructor(
    private readonly form: Form,
    private readonly tools: readonly ChatTool[],
    promptEnd: string,
  ) {
    if (opensThoughts(form, promptEnd)) this.#place = 'thought';
  }

  push(piece: string, control: boolean): Delta[] {
    if (control && !this.#marks().includes(piece)) return [];
    this.#held += piece;
    while (this.#step()) { /* as far as it goes */ }
    return this.#told();
  }

  end(): Delta[] {
    if (this.#place === 'call') {
      this.#call(this.#held, '');
    } else if (this.#place === 'thought') {
      this.#thought(this.#held.trimEnd());
    } else {
      this.#text(this.#held);
    }
    this.#held = '';
    // A call is not followed by blanks, an answer may be.
    if (this.#blanks !== '' && !this.#called) this.#out.push({ text: this.#blanks });
    this.#blanks = '';
    return this.#told();
  }

  #told(): Delta[] {
    return this.#out.splice(0);
  }

  #marks(): readonly string[] {
    const { thoughts, calls } = this.form;
    return [thoughts?.open, thoughts?.close, calls?.open, calls?.close, ...(calls?.inside ?? [])].filter((mark) => mark !== undefined);
  }

  /** Goes on as far as the next mark; false if more of the answer is needed. */
  #step(): boolean {
    switch (this.#place) {
      case 'start': return this.#start();
      case 'thought': return this.#thinking();
      case 'text': return this.#telling();
      case 'call': return this.#calling();
    }
  }

  #start(): boolean {
    const { thoughts, calls } = this.form;
    const rest = this.#held.trimStart();
    if (rest === '') return false;
    if (thoughts && rest.startsWith(thoughts.open)) {
      this.#held = rest.slice(thoughts.open.length);
      this.#place = 'thought';
      return true;
    }
    if (thoughts?.open.startsWith(rest)) return false;
    if (calls?.bare && rest.startsWith('{')) {
      this.#open(this.#held);
      return true;
    }
    this.#place = 'text';
    return true;
  }

  #thinking(): boolean {
    const { close, title } = this.form.thoughts!;
    if (!this.#began) {
      this.#held = this.#held.trimStart();
      if (title?.startsWith(this.#held.trimEnd())) return false;
      if (title !== undefined && this.#held.startsWith(title)) this.#held = this.#held.slice(title.length).trimStart();
      if (this.#held === '') return false;
      this.#began = true;
    }
    const { at, mark } = firstMark(this.#held, [close]);
    // Blanks at the end of thoughts are none.
    const thought = this.#held.slice(0, at);
    const sure = thought.trimEnd();
    this.#thought(sure);
    if (mark === undefined) {
      this.#held = this.#held.slice(sure.length);
      return false;
    }
    this.#held = this.#held.slice(at + mark.length);
    this.#place = 'text';
    this.#behind = true;
    return true;
  }

  #telling(): boolean {
    const { calls } = this.form;
    if (this.#behind) {
      this.#held = this.#held.trimStart();
      if (this.#held === '') return false;
      this.#behind = false;
      if (calls?.bare && this.#held.startsWith('{')) {
        this.#open(this.#held);
        return true;
      }
    }
    const { at, mark } = firstMark(this.#held, calls ? [calls.open] : []);
    this.#text(this.#held.slice(0, at));
    this.#held = this.#held.slice(at);
    if (mark === undefined) return false;
    this.#open(this.#held.slice(mark.length), mark);
    return true;
  }

  #open(held: string, mark = ''): void {
    this.#mark = mark;
    this.#held = held;
    this.#seen = 0;
    this.#place = 'call';
  }

  #calling(): boolean {
    const { close } = this.form.calls!;
    if (close === undefined) return false;
    const at = this.#held.indexOf(close, Math.max(0, this.#seen - close.length));
    if (at < 0) {
      this.#seen = this.#held.length;
      return false;
    }
    this.#call(this.#held.slice(0, at), close);
    this.#held = this.#held.slice(at + close.length);
    this.#place = 'text';
    return true;
  }

  /** Tells of the calls that a text is; of the text itself, marks included, if it is none. */
  #call(text: string, close: string): void {
    const calls = this.form.calls!.read(text.trim(), this.tools);
    if (calls === null) return this.#text(this.#mark + text + close);
    this.#called = true;
    this.#blanks = '';
    this.#out.push(...calls.map((call) => ({ call })));
  }

  #thought(thought: string): void {
    if (thought !== '') this.#out.push({ thought });
  }

  #text(text: string): void {
    if (!this.form.calls) {
      if (text !== '') this.#out.push({ text });
      return;
    }
    const all = this.#blanks + text;
    const sure = all.trimEnd();
    this.#blanks = all.slice(sure.length);
    if (sure !== '') this.#out.push({ text: sure });
  }
}

/** A reader of the answers of a form, behind a prompt that ends so. Without tools calls are text. */
export function answerReader(form: Form, tools: readonly ChatTool[], promptEnd: string): AnswerReader {
  if (form.channels) return new Channels(promptEnd, tools.length > 0);
  const { calls, ...plain } = form;
  const used: Form = tools.length > 0 ? form : plain;
  return used.calls || used.thoughts ? new Marked(used, tools, promptEnd) : new Plain();
}
