/** What went wrong with a model, and a way out. */

import { failure } from '../state/engine.js';
import { Icon } from './icons.js';

export function FailureView() {
  if (!failure.value) return null;
  const { what, hint, again } = failure.value;
  return (
    <section id="error" class="column" role="alert">
      <div>
        <strong id="error-what">{what}</strong>
        {hint && <span id="error-hint">{hint}</span>}
      </div>
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
      <button type="button" class="quiet" aria-label="Dismiss" onClick={() => (failure.value = undefined)}>
        <Icon name="close" />
      </button>
    </section>
  );
}
