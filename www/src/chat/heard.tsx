/** What a screen reader says: an answer, once, when it is there. */

import { finished } from '../state/answer.js';

export function Heard() {
  const message = finished.value;
  const text = message && (message.end === 'failed' ? '' : message.text || 'No answer.');
  return (
    <div id="heard" class="hidden" role="status" aria-live="polite" aria-atomic="true">
      {text}
    </div>
  );
}
