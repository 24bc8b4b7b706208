/** The list of conversations: to go to one, to rename or delete it, and to take all of them elsewhere. */

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { newChat, open } from '../state/answer.js';
import { conversations, current, isNew, remove, rename } from '../state/conversations.js';
import type { Conversation } from '../state/types.js';
import { Icon } from '../ui/icons.js';

/** `onDone`: something was chosen, so that a drawer may close. */
export function ConversationsList({ onDone }: { onDone?: () => void }) {
  return (
    <div class="conversations">
      <button
        id="new-chat"
        type="button"
        aria-current={isNew.value ? 'page' : undefined}
        onClick={() => {
          newChat();
          onDone?.();
        }}
      >
        <Icon name="plus" />
        New chat
      </button>
      <ul aria-label="Conversations">
        {conversations.value.map((each) => (
          <Row key={each.id} conversation={each} onDone={onDone} />
        ))}
      </ul>
      <Exchange />
    </div>
  );
}

function Row({
  conversation: { id, title },
  onDone,
}: {
  conversation: Conversation;
  onDone: (() => void) | undefined;
}) {
  const [renaming, setRenaming] = useState(false);
  if (renaming) {
    return (
      <li>
        <RenameField title={title} onSave={(changed) => rename(id, changed)} onEnd={() => setRenaming(false)} />
      </li>
    );
  }
  const go = () => {
    open(id);
    onDone?.();
  };
  return (
    <li class="conversation">
      <button
        type="button"
        class="title"
        aria-current={current.value.id === id ? 'page' : undefined}
        title={title}
        onClick={go}
      >
        <bdi>{title}</bdi>
      </button>
      <button
        type="button"
        class="quiet"
        aria-label={`Rename “${title}”`}
        title="Rename"
        onClick={() => setRenaming(true)}
      >
        <Icon name="edit" />
      </button>
      <button type="button" class="quiet" aria-label={`Delete “${title}”`} title="Delete" onClick={() => remove(id)}>
        <Icon name="delete" />
      </button>
    </li>
  );
}

function RenameField({ title, onSave, onEnd }: { title: string; onSave: (title: string) => void; onEnd: () => void }) {
  const left = useRef(false);
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  const end = (save: boolean) => {
    if (left.current) return; // the field loses the focus when it goes away
    left.current = true;
    if (save) onSave(field.current!.value);
    onEnd();
  };
  return (
    <input
      ref={field}
      type="text"
      class="rename"
      aria-label="Title"
      defaultValue={title}
      maxLength={120}
      onBlur={() => end(true)}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && !event.isComposing) end(true);
        if (event.key !== 'Escape') return;
        event.stopPropagation();
        event.preventDefault();
        end(false);
      }}
    />
  );
}

function Exchange() {
  const files = useRef<HTMLInputElement>(null);
  const some = conversations.value.length > 0;
  const fetch = () => import('./exchange_files.js');
  return (
    <div class="exchange">
      <button
        type="button"
        class="quiet"
        disabled={isNew.value}
        onClick={async () => (await fetch()).exportFile([current.value])}
      >
        <Icon name="export" />
        Export this chat
      </button>
      <button
        type="button"
        class="quiet"
        disabled={!some}
        onClick={async () => (await fetch()).exportFile(conversations.value)}
      >
        <Icon name="export" />
        Export all
      </button>
      <button type="button" class="quiet" onClick={() => files.current?.click()}>
        <Icon name="import" />
        Import
      </button>
      <input
        id="import"
        ref={files}
        type="file"
        accept=".json,application/json"
        hidden
        aria-label="A file of conversations"
        onChange={async (event) => {
          const [file] = event.currentTarget.files ?? [];
          if (file) await (await fetch()).importFile(file);
          if (files.current) files.current.value = ''; // the same file may be chosen again
        }}
      />
    </div>
  );
}
