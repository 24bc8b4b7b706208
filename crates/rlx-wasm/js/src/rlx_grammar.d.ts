// The glue of the module that holds answers to a form: as `rlx_wasm.d.ts`, with other classes.

import type { Around } from './rlx_wasm.js';

export interface GrammarGlue {
  init(options: { module_or_path: WebAssembly.Module }): Promise<unknown>;
  RlxVocabulary: new (bytes: Uint8Array) => BoundVocabulary;
}

/** The tokens of a model. */
export interface BoundVocabulary {
  /** The start of an answer of a form; `kind` is `json`, `schema`, `regex`, `gbnf` or `lark`. */
  matcher(kind: string, text: string): BoundMatcher;
  free(): void;
}

/** An answer under way. */
export interface BoundMatcher {
  /** Takes the tokens that were sampled since the last call, and gives the bits of those that may follow. */
  step(sampled: Uint32Array): Uint32Array;
  /** Whether nothing may follow but the answer's end. */
  over(): boolean;
  free(): void;
}

export default function instantiate(around: Around): GrammarGlue;
