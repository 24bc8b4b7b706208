/**
 * Markdown to blocks. Answers are hostile and come piece by piece: only the last block is read again when more of it
 * has come, and what would take long to read stays plain text.
 */

import { Lexer, Marked } from 'marked';
import type { MarkedExtension, MarkedOptions, Token, Tokens } from 'marked';

/** A block at the top level. `token` is undefined where it is shown as it is. */
export interface Block {
  raw: string;
  token: Token | undefined;
}

export interface Lexed {
  text: string;
  blocks: readonly Block[];
}

/** Characters of a block from which on it is plain text, and of a paragraph or cell. */
const LONGEST_BLOCK = 100_000;
const LONGEST_INLINE = 5_000;
/** Characters that are read at a time, so that no block makes a long text be read whole. */
const STEP = 16_000;
/**
 * Lists and quotes inside of each other, by their marks and by how far a mark is to the right: more make no sense, and
 * take long to read.
 */
const TOO_DEEP = /^(?:(?:[ \t]*(?:[>*+-]|\d{1,9}[.)])){40}|[ \t]{80,}(?:[>*+-]|\d{1,9}[.)]))/m;
const RULES = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,})$/gm;

/** Formulas, which stay as they are: asterisks and underscores in them mean no emphasis. */
const FORMULA =
  /^(?:\$\$(?:[^$\\]|\\[^])+?\$\$|\\\([^\n]+?\\\)|\\\[[^]+?\\\]|\$(?![\s$])(?:[^$\\\n]|\\.)*?[^\s$\\]\$(?!\d))/;
const BLOCK_FORMULA = /^(?:\$\$(?:[^$\\]|\\[^])+?\$\$|\\\[[^]+?\\\])[ \t]*(?:\n|$)/;

const formula = (name: string, level: 'block' | 'inline', rule: RegExp) => ({
  name,
  level,
  // A block cuts no paragraph in two; there a formula is inline.
  ...(level === 'inline' && {
    start: (text: string) => {
      const at = text.search(/\$|\\[([]/);
      return at < 0 ? undefined : at;
    },
  }),
  tokenizer: (text: string): Tokens.Generic | undefined => {
    const found = rule.exec(text.slice(0, LONGEST_INLINE));
    return found ? { type: name, raw: found[0], text: found[0].trim() } : undefined;
  },
});

const options = new Marked({
  extensions: [formula('formulaBlock', 'block', BLOCK_FORMULA), formula('formula', 'inline', FORMULA)],
} as MarkedExtension).defaults as MarkedOptions<string, string>;

const plain = (text: string): Tokens.Text => ({ type: 'text', raw: text, text, escaped: false });

/** Reads no long paragraph for emphasis and links: some texts take time that grows with the square of their length. */
class BoundedLexer extends Lexer {
  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    if (text.length <= LONGEST_INLINE && !tooNested(text)) return super.inlineTokens(text, tokens);
    tokens.push(plain(text));
    return tokens;
  }
}

function tooNested(text: string): boolean {
  return (text.match(/[*_~]{2,}|!?\[/g)?.length ?? 0) > 1000 || /[[*_~]{40}/.test(text);
}

/** The blocks of a text. With those of its beginning only what is new is read. */
export function lex(text: string, before?: Lexed): Lexed {
  const all = text.replace(/\r\n?/g, '\n');
  const blocks: Block[] = [];
  let at = 0;
  if (before && all.startsWith(before.text)) {
    blocks.push(...withoutLast(before.blocks));
    at = blocks.reduce((sum, { raw }) => sum + raw.length, 0);
  }
  let end = Math.min(all.length, Math.max(at, before?.text.length ?? 0) + STEP);
  for (;;) {
    const tail = all.slice(at, end);
    const found = tail.length > LONGEST_BLOCK ? [{ raw: tail, token: undefined }] : read(tail);
    if (end === all.length) return { text: all, blocks: [...blocks, ...found] };
    const whole = tail.length > LONGEST_BLOCK ? found : withoutLast(found);
    blocks.push(...whole);
    at += whole.reduce((sum, { raw }) => sum + raw.length, 0);
    end = Math.min(all.length, end + STEP);
  }
}

/** All but the last block with something in it: it may go on. A long one that is plain text has ended. */
function withoutLast(blocks: readonly Block[]): readonly Block[] {
  let end = blocks.length;
  const last = blocks[end - 1];
  if (last && !last.token && last.raw.length > LONGEST_BLOCK) return blocks;
  while (end > 0 && blocks[end - 1]!.raw.trim() === '') end -= 1;
  return blocks.slice(0, Math.max(0, end - 1));
}

function read(text: string): Block[] {
  if (text === '') return [];
  if (!TOO_DEEP.test(text.replace(RULES, ''))) {
    try {
      const tokens = new BoundedLexer({ ...options }).lex(text);
      const blocks = tokens.map((token) => ({ raw: token.raw, token }));
      if (blocks.reduce((sum, { raw }) => sum + raw.length, 0) === text.length) return blocks;
    } catch {
      // Nested too deeply for the lexer: shown as it is.
    }
  }
  return [{ raw: text, token: undefined }];
}
