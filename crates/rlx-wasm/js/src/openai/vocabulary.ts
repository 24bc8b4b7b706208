/** The tokens of an engine, for forms of answers. */

import { ModuleVocabulary } from '../grammar_module.js';
import type { WasmSource } from '../types.js';
import type { ChatContext } from './call.js';

/** What a token is: `end` ends an answer, as control tokens do. */
type Kind = 'text' | 'control' | 'end';
const KINDS: readonly Kind[] = ['text', 'control', 'end'];

/** A token's number and kind. */
export interface Token {
  id: number;
  kind: Kind;
}

/** Tokens by their texts, for the texts that forms of answers need, and the module's view of all. */
export class Vocabulary {
  readonly module: ModuleVocabulary;
  /** Tokens that end an answer. */
  readonly ends: readonly number[];
  /** Words with a bit for each token. */
  readonly words: number;
  readonly #tokens: ReadonlyMap<string, Token>;

  /**
   * `bytes` is what `WasmEngine.vocabulary` gives; `texts` are the tokens that `token` will be asked for;
   * `wasm` is the module, if not the package's.
   */
  constructor(bytes: Uint8Array, texts: readonly string[], wasm?: WasmSource) {
    this.module = new ModuleVocabulary(bytes, wasm);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const encoder = new TextEncoder();
    const wanted = texts.map((text) => ({ text, bytes: encoder.encode(text) }));
    const tokens = new Map<string, Token>();
    const ends: number[] = [];
    let id = 0;
    for (let at = 0; at < bytes.length; id++) {
      const kind = KINDS[bytes[at]!]!;
      const from = at + 5;
      at = from + view.getUint32(at + 1, true);
      if (kind === 'end') ends.push(id);
      const found = wanted.find((it) => it.bytes.length === at - from && it.bytes.every((byte, i) => byte === bytes[from + i]));
      if (found && !tokens.has(found.text)) tokens.set(found.text, { id, kind });
    }
    this.ends = ends;
    this.words = Math.ceil(id / 32);
    this.#tokens = tokens;
  }

  /** The one token with this text, if there is one. */
  token(text: string): Token | undefined {
    return this.#tokens.get(text);
  }

  /** The text in a grammar of Lark's: a control token has no text there but its number. */
  lark(text: string): string {
    const token = this.token(text);
    return token && token.kind !== 'text' ? `<[${token.id}]>` : JSON.stringify(text);
  }
}

const made = new WeakMap<object, Vocabulary>();

/** The tokens of an engine, read once. */
export async function vocabularyOf({ engine, grammarWasm }: Pick<ChatContext, 'engine' | 'grammarWasm'>, texts: readonly string[]): Promise<Vocabulary> {
  const vocabulary = made.get(engine) ?? new Vocabulary(engine.vocabulary(), texts, grammarWasm);
  made.set(engine, vocabulary);
  await vocabulary.module.ready();
  return vocabulary;
}
