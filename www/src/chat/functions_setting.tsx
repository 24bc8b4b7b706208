/** Whether the model may call functions, and which. */

import { toolsFor } from '../functions/functions.js';
import { documentsOf } from '../functions/documents.js';
import { CATALOG } from '../models/catalog.js';
import { change, current } from '../state/conversations.js';
import { loaded, takesFunctions } from '../state/engine.js';

export function FunctionsSetting() {
  const { id, functions } = current.value;
  return (
    <section>
      <h3>Functions</h3>
      {takesFunctions.value ? (
        <>
          <label class="check">
            <input
              id="functions"
              type="checkbox"
              checked={functions}
              aria-describedby="functions-help"
              onChange={({ currentTarget: { checked } }) => change(id, (it) => ({ ...it, functions: checked }), false)}
            />
            <span>Let the model use functions</span>
          </label>
          <p id="functions-help" class="hint">
            It may calculate, ask for the time, and read documents: the text files of this chat, part by part, and what
            this page says about itself. All of it stays on this device, and each call is shown.
          </p>
          <details class="schemas">
            <summary>What the model is told of them</summary>
            <pre tabIndex={0} aria-label="The functions as JSON schemas">
              {JSON.stringify(toolsFor(documentsOf(current.value)), null, 2)}
            </pre>
          </details>
        </>
      ) : (
        <p class="hint" id="no-functions">
          {loaded.value ? `${loaded.value.source.name} uses no functions. ` : ''}
          {`Some models can calculate or read documents by calling functions of this page, such as ${CALLERS}.`}
        </p>
      )}
    </section>
  );
}

const CALLERS = CATALOG.filter(({ calls }) => calls)
  .map(({ name }) => name)
  .join(' and ');
