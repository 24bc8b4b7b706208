/**
 * Holds answers to a form: `response_format`, `grammar`, calls that are forced or strict. The module `rlx-grammar` says
 * which tokens a grammar allows; here is where in an answer the grammar holds: behind thoughts, and not inside of calls
 * that the model may make instead.
 */

import { toRlxError, usage } from '../error.js';
import type { Matcher } from '../grammar_module.js';
import { opensThoughts } from './answer.js';
import { asksOf } from './asks.js';
import type { FormRequest, Grammar } from './asks.js';
import type { ChatContext } from './call.js';
import { callGrammar } from './call_grammars.js';
import type { Form } from './forms.js';
import type { ChatTool } from './types.js';
import { vocabularyOf } from './vocabulary.js';
import type { Vocabulary } from './vocabulary.js';

/** Takes the tokens that were sampled since the last call; gives the bits of those that may follow, nothing if all may, or an error's text. */
export type Constraint = (sampled: Uint32Array) => Uint32Array | undefined | string;

/** Makes the constraint of one answer, behind a prompt that ends so. */
export type Hold = () => { next: Constraint; begin(promptEnd: string): void; end(): void };

/** Blanks that may stand once between thoughts or calls and what follows. */
const BLANKS = ['\n', '\n\n', ' '];
const CHANNELS = ['<|channel|>', '<|message|>', '<|constrain|>'];

/** Where in its answer a model is. */
type Place = 'thoughts' | 'start' | 'answer' | 'call';

/** What an answer is made of, in numbers of tokens. */
interface Parts {
  vocabulary: Vocabulary;
  answer?: Grammar | undefined;
  thoughts?: { open: number; close: number } | undefined;
  /** The token that begins the answer in its channel. */
  channels?: { channel: number; message: number; detokenize: (ids: Uint32Array) => string } | undefined;
  call?: { open: number; close: number | undefined; grammar?: Grammar | undefined; once: boolean } | undefined;
}

class Held {
  #place: Place = 'start';
  #matcher: Matcher | undefined;
  /** Tokens that the matcher has not seen. */
  #new: number[] = [];
  #blanks = false;
  #thought = false;
  #calls = 0;
  /** Tokens of a channel's header, inside one. */
  #header: number[] | undefined;

  constructor(private readonly parts: Parts, private readonly thinks: (promptEnd: string) => boolean) {
    if (parts.channels) this.#place = 'thoughts';
  }

  begin(promptEnd: string): void {
    if (this.thinks(promptEnd)) this.#think();
  }

  next: Constraint = (sampled) => {
    try {
      for (const id of sampled) this.#take(id);
      return this.#allowed();
    } catch (error) {
      return toRlxError(error).what;
    }
  };

  end(): void {
    this.#matcher?.end();
    this.#matcher = undefined;
  }

  #think(): void {
    this.end();
    this.#place = 'thoughts';
    this.#thought = true;
  }

  #hold(grammar: Grammar | undefined): void {
    this.end();
    this.#new = [];
    this.#matcher = grammar && this.parts.vocabulary.module.matcher(grammar.kind, grammar.text);
  }

  #start(): void {
    this.end();
    this.#place = 'start';
    this.#blanks = true;
  }

  #take(id: number): void {
    const { thoughts, channels, call, vocabulary } = this.parts;
    switch (this.#place) {
      case 'thoughts':
        if (channels) this.#channel(id, channels);
        else if (id === thoughts?.close) this.#start();
        return;
      case 'start':
        if (id === thoughts?.open && !this.#thought) return this.#think();
        if (this.#blanks && BLANKS.some((blank) => vocabulary.token(blank)?.id === id)) {
          this.#blanks = false;
          return;
        }
        if (id === call?.open) return this.#call();
        this.#place = 'answer';
        this.#new.push(id);
        return;
      case 'answer':
        if (id === call?.open && !this.#matcher) this.#call();
        else this.#new.push(id);
        return;
      case 'call':
        this.#new.push(id);
        if (!this.#matcher && id === call?.close) this.#start();
    }
  }

  #call(): void {
    this.#place = 'call';
    this.#calls += 1;
    this.#hold(this.parts.call?.grammar);
  }

  /** The answer stands in the channel `final`. */
  #channel(id: number, { channel, message, detokenize }: NonNullable<Parts['channels']>): void {
    if (id === channel) {
      this.#header = [];
    } else if (id === message && this.#header) {
      const header = detokenize(Uint32Array.from(this.#header)).trim();
      this.#header = undefined;
      if (header.startsWith('final')) this.#start();
    } else {
      this.#header?.push(id);
    }
  }

  #allowed(): Uint32Array | undefined {
    const { answer, call, thoughts, vocabulary } = this.parts;
    if (this.#place === 'start') {
      const over = this.#calls > 0 && call?.once;
      if (!answer && !over) return undefined;
      if (!over && !this.#matcher) this.#hold(answer);
      const bits = over ? new Uint32Array(vocabulary.words) : this.#matcher!.step(new Uint32Array());
      const more = [
        this.#thought ? undefined : thoughts?.open,
        over ? undefined : call?.open,
        ...(this.#calls > 0 ? vocabulary.ends : []),
        ...(this.#blanks && !over ? BLANKS.map((blank) => vocabulary.token(blank)?.id) : []),
      ];
      for (const id of more) if (id !== undefined) bits[id >>> 5]! |= 1 << (id & 31);
      return bits;
    }
    if (!this.#matcher) return undefined;
    const bits = this.#matcher.step(Uint32Array.from(this.#new.splice(0)));
    if (this.#place !== 'call' || !this.#matcher.over()) return bits;
    this.#start();
    return this.#allowed();
  }
}

/** What holds the answers of a request to its form. Fetches the module; throws for a grammar that is none. */
export async function hold(cx: ChatContext, asked: FormRequest, form: Form = {}, tools: readonly ChatTool[] = []): Promise<Hold> {
  const asks = asksOf(asked, tools);
  const { engine } = cx;
  const template = engine.template(tools.length > 0);
  const { thoughts, calls } = form;
  const marks = [thoughts?.open, thoughts?.close, calls?.open, calls?.close, ...(calls?.inside ?? [])].filter((mark) => mark !== undefined);
  const vocabulary = await vocabularyOf(cx, [...BLANKS, ...CHANNELS, ...marks]);
  const id = (text: string | undefined) => (text === undefined ? undefined : vocabulary.token(text)?.id);
  const parts: Parts = { vocabulary, answer: asks.answer };
  const [open, close] = [id(thoughts?.open), id(thoughts?.close)];
  if (open !== undefined && close !== undefined) parts.thoughts = { open, close };
  const once = asks.once ?? false;
  const limits = asks.strict || asks.once;
  if (asks.forced) {
    parts.answer = { kind: 'lark', text: callGrammar(form, template, vocabulary, asks.forced, { once }) };
  } else if (tools.length > 0) {
    const begins = id(calls?.open);
    if (begins !== undefined && !calls?.bare) {
      const strict = asks.strict && callGrammar(form, template, vocabulary, tools, { once: true, opened: true });
      parts.call = { open: begins, close: id(calls?.close), grammar: strict ? { kind: 'lark', text: strict } : undefined, once };
    } else if (limits || asks.answer) {
      throw usage(
        "nothing marks where this model's calls begin, so that they cannot be held to a form", 'tools',
        'force a call by tool_choice, or leave strict, parallel_tool_calls and response_format out',
      );
    }
  }
  const [channel, message] = [id('<|channel|>'), id('<|message|>')];
  if (form.channels && asks.answer && channel !== undefined && message !== undefined) {
    parts.channels = { channel, message, detokenize: (ids) => engine.detokenize(ids) };
  }
  const thinks = (promptEnd: string): boolean => {
    if (!opensThoughts(form, promptEnd)) return false;
    if (!parts.thoughts) throw usage('an answer behind thoughts cannot be held to a form here', 'messages', 'turn thoughts off by chat_template_kwargs');
    return true;
  };
  // What is wrong with a grammar is said before anything is computed.
  for (const grammar of [parts.answer, parts.call?.grammar]) {
    if (grammar) vocabulary.module.matcher(grammar.kind, grammar.text).end();
  }
  return () => new Held(parts, thinks);
}
