/** What was in view, over one load of the page in the same tab. */

import { signal } from '@preact/signals';
import { attached } from './attachments.js';
import { current, show } from './conversations.js';
import type { Attachment } from './types.js';

const KEY = 'rlx-demo.resume';

interface Resumed {
  conversation: string;
  /** The question that was being written. */
  draft: string;
  attachments: readonly Attachment[];
}

/** What is written and not asked yet; the composer keeps it up to date. */
export const draft = signal('');

export function remember(): void {
  const now: Resumed = { conversation: current.value.id, draft: draft.value, attachments: attached.value };
  try {
    sessionStorage.setItem(KEY, JSON.stringify(now));
  } catch {
    // Storage is denied, or files are larger than it: what was said is in the list of chats.
  }
}

/** Once conversations are there: shows what `remember` remembered, if it was called before this load. */
export function resume(): void {
  try {
    const text = sessionStorage.getItem(KEY);
    if (text === null) return;
    sessionStorage.removeItem(KEY);
    const then = JSON.parse(text) as Resumed;
    show(then.conversation);
    draft.value = then.draft;
    attached.value = then.attachments;
  } catch {
    // Nothing to come back to.
  }
}
