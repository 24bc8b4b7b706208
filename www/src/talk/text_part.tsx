/** What was said, as it becomes known. */

import { CopyButton } from '../ui/copy_button.js';
import { heard, sound, text } from './state.js';

export function TextPart() {
  const said = text.value.trim();
  const over = heard.value;
  if (!said && !sound.value && !over) return null;
  return (
    <section class="said" aria-labelledby="talk-said">
      <div class="row">
        <h2 id="talk-said" class="grow">
          Text
        </h2>
        {said && <CopyButton text={said} label="Copy the text" />}
      </div>
      {/* Said when it is all there: a piece every few seconds would interrupt who speaks. */}
      <p id="talk-text" aria-busy={sound.value !== undefined} aria-live="polite">
        {said || (over ? 'Nothing was said in it, or nothing that this model hears.' : '…')}
      </p>
      {over && (
        <p id="talk-speed" class="hint">
          {over.file === undefined
            ? `${over.seconds.toFixed(1)} seconds of your microphone.`
            : `${over.seconds.toFixed(1)} seconds of sound, heard in ${(over.ms / 1000).toFixed(1)}.`}
        </p>
      )}
    </section>
  );
}
