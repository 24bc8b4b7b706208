/** A message of a conversation, with what can be done with it. */

import { useState } from 'preact/hooks';
import { canAsk, edit, retry } from '../state/answer.js';
import type { End, Message } from '../state/types.js';
import { CopyButton } from '../ui/copy_button.js';
import { plural } from '../ui/format.js';
import { Icon } from '../ui/icons.js';
import { memo } from '../ui/memo.js';
import { EditForm } from './edit_form.js';
import { Calls } from './calls.js';
import { Markdown } from './markdown/markdown.js';
import { SpeedView } from './speed.js';

const ENDS: { [end in Exclude<End, 'failed'>]: string } = {
  stopped: 'Stopped.',
  length: 'It has the longest length that the settings allow.',
  context: 'The context is full: begin a new chat.',
  calls: 'It called functions again and again, and came to no answer.',
};

export const MessageView = memo(function MessageView({ message, live }: { message: Message; live: boolean }) {
  return message.role === 'user' ? <Question message={message} /> : <Answer message={message} live={live} />;
});

function Question({ message }: { message: Message }) {
  const [editing, setEditing] = useState(false);
  const { id, text, attachments = [] } = message;
  if (editing) {
    const save = (changed: string) => {
      setEditing(false);
      void edit(id, changed);
    };
    return <EditForm text={text} onSave={save} onCancel={() => setEditing(false)} />;
  }
  return (
    <article class="message user" aria-label="You">
      {attachments.length > 0 && (
        <ul class="chips" aria-label="Files">
          {attachments.map((file, i) => (
            <li key={i}>
              <bdi>{file.name}</bdi> <small>{plural(file.text.length, 'character')}</small>
            </li>
          ))}
        </ul>
      )}
      <p class="text" dir="auto">
        {text}
      </p>
      <div class="actions">
        <button
          type="button"
          class="quiet"
          aria-label="Edit and ask again"
          title="Edit and ask again"
          disabled={!canAsk.value}
          onClick={() => setEditing(true)}
        >
          <Icon name="edit" />
        </button>
        <CopyButton text={text} label="Copy question" />
      </div>
    </article>
  );
}

function Answer({ message, live }: { message: Message; live: boolean }) {
  const { id, text, reasoning, calls, end, fault, speed } = message;
  const waiting = live && text === '';
  return (
    <article class={`message assistant${waiting ? ' waiting' : ''}`} aria-label="Model">
      {reasoning && (
        <details class="reasoning">
          <summary>{waiting ? 'Thinking…' : 'Thoughts'}</summary>
          <Markdown text={reasoning} open={waiting} />
        </details>
      )}
      {(text !== '' || !calls) && <Markdown text={text} open={live} />}
      {calls && <Calls calls={calls} />}
      {end && end !== 'failed' && <p class="remark">{ENDS[end]}</p>}
      {end === 'failed' && (
        <p class="remark fault" role="alert">
          {fault}
        </p>
      )}
      {(end || !calls) && (
        <div class="actions">
          {!live && (
            <>
              <CopyButton text={text} label="Copy answer" />
              <button
                type="button"
                class="quiet"
                aria-label="Ask again"
                title="Ask again"
                disabled={!canAsk.value}
                onClick={() => void retry(id)}
              >
                <Icon name="retry" />
              </button>
            </>
          )}
          {speed && <SpeedView speed={speed} />}
        </div>
      )}
    </article>
  );
}
