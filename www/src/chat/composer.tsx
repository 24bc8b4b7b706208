/** Where questions are written. */

import { useEffect, useRef } from 'preact/hooks';
import { ask, busy, canAsk, finished, stop } from '../state/answer.js';
import { attached } from '../state/attachments.js';
import { current } from '../state/conversations.js';
import { loading, recovering } from '../state/engine.js';
import { say } from '../state/news.js';
import { draft } from '../state/resume.js';
import { Icon } from '../ui/icons.js';
import { AttachButton, Attached } from './attach.js';

export function Composer() {
  const area = useRef<HTMLTextAreaElement>(null);
  const idle = canAsk.value;
  // The focus comes here when there is something to write, unless it is in use elsewhere.
  useEffect(() => {
    const { activeElement } = document;
    if (idle && (activeElement === document.body || activeElement === null)) area.current?.focus();
  }, [idle, current.value.id, finished.value]);
  const submit = () => {
    const question = draft.value.trim();
    if (question === '') return;
    if (!idle) {
      if (!busy.value) say(whyNot());
      return;
    }
    draft.value = '';
    const files = attached.value;
    attached.value = [];
    void ask(question, files);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  };
  return (
    <form
      id="composer"
      class="column"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Attached />
      <AttachButton />
      <label for="prompt" class="hidden">
        Your question
      </label>
      <textarea
        id="prompt"
        ref={area}
        value={draft.value}
        rows={1}
        dir="auto"
        placeholder="Ask a question"
        autocomplete="off"
        onInput={(event) => (draft.value = event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      {busy.value ? (
        <button id="stop" type="button" class="primary round" aria-label="Stop" title="Stop" onClick={stop}>
          <Icon name="stop" />
        </button>
      ) : (
        <button id="send" type="submit" class="primary round" aria-label="Send" title="Send" disabled={!idle}>
          <Icon name="send" />
        </button>
      )}
    </form>
  );
}

/** Why a question is not asked now; it stays where it is. */
const whyNot = (): string =>
  loading.value || recovering.value
    ? 'The model is still loading. Your question stays here: press Enter again once it is there.'
    : 'There is no model yet. Choose one above: your question stays here.';
