/** A question and a JSON schema in, an answer of that form out. */

import { ready } from '../state/engine.js';
import { CopyButton } from '../ui/copy_button.js';
import { answer, begin, EXAMPLES, formFailure, question, schema, stop, writing, written } from './forms_state.js';

export function Forms() {
  return (
    <section class="part" aria-labelledby="try-forms">
      <h2 id="try-forms">Answers of a form</h2>
      <p class="hint">
        The model can only write what the JSON schema allows, so a program can read the answer. That it is true depends
        on the model.
      </p>
      <div class="row" role="group" aria-label="Examples">
        {Object.keys(EXAMPLES).map((name) => (
          <button key={name} type="button" onClick={() => begin(name)}>
            {name}
          </button>
        ))}
      </div>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void answer();
        }}
      >
        <label class="field">
          <span>Question</span>
          <input
            id="form-question"
            type="text"
            dir="auto"
            value={question.value}
            onInput={(event) => (question.value = event.currentTarget.value)}
          />
        </label>
        <label class="field">
          <span>JSON schema</span>
          <textarea
            id="form-schema"
            class="code"
            rows={10}
            spellcheck={false}
            value={schema.value}
            onInput={(event) => (schema.value = event.currentTarget.value)}
          />
        </label>
        <div class="row">
          {writing.value ? (
            <button id="form-stop" type="button" onClick={stop}>
              Stop
            </button>
          ) : (
            <button id="form-answer" type="submit" class="primary" disabled={!ready.value}>
              Answer
            </button>
          )}
          <p class="hint" role="status">
            {told()}
          </p>
        </div>
      </form>
      {formFailure.value && (
        <p id="form-error" class="fault" role="alert">
          <strong>{formFailure.value.what}</strong> {formFailure.value.hint}
        </p>
      )}
      {written.value && (
        <div class="written">
          <pre id="form-written" tabIndex={0} role="region" aria-label="Answer">
            <code>{written.value.json ?? written.value.text}</code>
          </pre>
          {written.value.json && <CopyButton text={written.value.json} label="Copy the answer" />}
        </div>
      )}
    </section>
  );
}

function told(): string {
  if (!ready.value) return 'The model is being loaded.';
  if (writing.value) return 'The model writes.';
  if (written.value?.json) return 'It is JSON of this form.';
  if (written.value?.end === 'length') return 'It was cut at 400 tokens, before its end: ask for less.';
  return written.value?.end === 'stopped' ? 'Stopped before its end.' : '';
}
