/** A question that is being changed. */

import { useLayoutEffect, useRef } from 'preact/hooks';

interface Properties {
  text: string;
  onSave: (text: string) => void;
  onCancel: () => void;
}

export function EditForm({ text, onSave, onCancel }: Properties) {
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(text.length, text.length);
  }, []);
  const save = () => {
    const changed = area.current!.value.trim();
    if (changed !== '') onSave(changed);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') onCancel();
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    save();
  };
  return (
    <form
      class="edit"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <textarea ref={area} aria-label="Change the question" dir="auto" defaultValue={text} onKeyDown={onKeyDown} />
      <p class="hint">What was said after this question is dropped.</p>
      <div class="row">
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        <button type="submit" class="primary">
          Ask again
        </button>
      </div>
    </form>
  );
}
