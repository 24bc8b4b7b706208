/** A text, and the tokens that the loaded model reads it as. */

import { plural } from '../ui/format.js';
import { MOST_LETTERS, MOST_SHOWN, split, splitFailure, text } from './tokens_state.js';

export function Tokens() {
  const found = split.value;
  return (
    <section class="part" aria-labelledby="try-tokens">
      <h2 id="try-tokens">Tokens</h2>
      <p class="hint">
        A model reads and writes numbers, one for each piece of text that its vocabulary has. Its context and its speed
        are counted in these.
      </p>
      <label class="field">
        <span>Text</span>
        <textarea
          id="tokens-text"
          rows={4}
          dir="auto"
          maxLength={MOST_LETTERS}
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
      </label>
      <p id="tokens-count" class="hint" role="status">
        {found && `${plural(found.count, 'token')} for ${plural(found.letters, 'character')}`}
        {found && found.count > MOST_SHOWN && `, of which the first ${MOST_SHOWN} are shown`}
        {found?.tokens.some(({ text: piece }) => piece.includes('\ufffd')) && '. � is a part of a character'}
      </p>
      {splitFailure.value && (
        <p class="fault" role="alert">
          <strong>{splitFailure.value.what}</strong> {splitFailure.value.hint}
        </p>
      )}
      {found && (
        <ol class="tokens" aria-label="Tokens and their numbers">
          {found.tokens.map(({ id, text: piece }, i) => (
            <li key={i}>
              <bdi>{visible(piece)}</bdi>
              <small>{id}</small>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

/** Blanks and ends of lines, which would not be seen. */
const visible = (piece: string) => piece.replace(/ /g, '·').replace(/\n/g, '↵').replace(/\t/g, '→') || '(control)';
