/** Files for the next question: a button to choose them, and what was chosen. */

import { useRef } from 'preact/hooks';
import { attach, attached, detach } from '../state/attachments.js';
import { plural } from '../ui/format.js';
import { Icon } from '../ui/icons.js';

export function AttachButton() {
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        class="quiet"
        aria-label="Attach text files"
        title="Attach text files"
        onClick={() => field.current?.click()}
      >
        <Icon name="attach" />
      </button>
      <input
        id="attach"
        ref={field}
        type="file"
        multiple
        hidden
        aria-label="Text files"
        onChange={() => {
          const files = [...(field.current!.files ?? [])];
          field.current!.value = ''; // the same files may be chosen again
          void attach(files);
        }}
      />
    </>
  );
}

export function Attached() {
  if (attached.value.length === 0) return null;
  return (
    <ul id="attached" class="chips" aria-label="Files for the next question">
      {attached.value.map((file, i) => (
        <li key={i}>
          <bdi>{file.name}</bdi> <small>{plural(file.text.length, 'character')}</small>
          <button type="button" class="quiet" aria-label={`Remove ${file.name}`} onClick={() => detach(file)}>
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}
