/** Colours for code. Fetched with the first block that needs it. */

import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import kotlin from 'highlight.js/lib/languages/kotlin';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

const LANGUAGES = {
  bash,
  c,
  cpp,
  csharp,
  css,
  diff,
  go,
  java,
  javascript,
  json,
  kotlin,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/** A piece of code, and the class of its colour. */
export interface Piece {
  kind: string | undefined;
  text: string;
}

/** The tree that highlight.js makes before it prints HTML, which is not wanted here. */
interface Node {
  scope?: string;
  children?: readonly (Node | string)[];
}

/** The pieces of a code; undefined for a language that is not known. */
export function highlight(code: string, language: string): readonly Piece[] | undefined {
  if (!hljs.getLanguage(language)) return undefined;
  const { _emitter } = hljs.highlight(code, { language, ignoreIllegals: true });
  const pieces: Piece[] = [];
  const walk = (node: Node | string, kind: string | undefined) => {
    if (typeof node === 'string') pieces.push({ kind, text: node });
    else
      for (const child of node.children ?? []) walk(child, node.scope ? `code-${node.scope.split(/[.:]/)[0]}` : kind);
  };
  walk((_emitter as unknown as { root: Node }).root, undefined);
  return pieces;
}
