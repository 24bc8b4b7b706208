/** A block of code: its language, a button to copy it, and colours once it is whole. */

import { useEffect, useState } from 'preact/hooks';
import { CopyButton } from '../../ui/copy_button.js';
import type { Piece } from './highlight.js';

/** Characters of code from which on it has no colours. */
const LONGEST = 20_000;

export function Code({ text, language, open }: { text: string; language: string; open: boolean }) {
  const pieces = usePieces(
    text,
    language
      .trim()
      .split(/[\s,{]/)[0]!
      .toLowerCase(),
    open,
  );
  const label = language.trim().slice(0, 40);
  return (
    <figure class="code" dir="ltr">
      <figcaption>
        <bdi>{label || 'text'}</bdi>
        <CopyButton text={text} label="Copy code" />
      </figcaption>
      <pre tabIndex={0} aria-label={label ? `Code: ${label}` : 'Code'} role="group">
        {/* Pieces are other nodes than the plain text: a text that became its own first word would count as moved. */}
        <code key={pieces ? 'coloured' : 'plain'}>
          {pieces
            ? pieces.map(({ kind, text: part }, i) =>
                kind ? (
                  <span key={i} class={kind}>
                    {part}
                  </span>
                ) : (
                  part
                ),
              )
            : text}
        </code>
      </pre>
    </figure>
  );
}

/** The coloured pieces; undefined until they are there, and where there are none. */
function usePieces(text: string, language: string, open: boolean): readonly Piece[] | undefined {
  const [found, setFound] = useState<{ text: string; pieces: readonly Piece[] | undefined }>();
  useEffect(() => {
    if (open || language === '' || text.length > LONGEST) return;
    let current = true;
    void import('./highlight.js').then(
      ({ highlight }) => current && setFound({ text, pieces: highlight(text, language) }),
      () => {},
    );
    return () => {
      current = false;
    };
  }, [text, language, open]);
  return found?.text === text ? found.pieces : undefined;
}
