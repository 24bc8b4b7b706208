/** Conversations to a file and from one. Fetched when it is asked for. */

import { add } from '../state/conversations.js';
import { exportText, importText, MOST_BYTES, NotConversations } from '../state/exchange.js';
import { say } from '../state/news.js';
import type { Conversation } from '../state/types.js';
import { plural } from '../ui/format.js';

export function exportFile(conversations: readonly Conversation[]): void {
  const [only] = conversations;
  const name =
    conversations.length === 1
      ? only!.title
          .replace(/[^\p{L}\p{N}]+/gu, '-')
          .replace(/^-|-$/g, '')
          .slice(0, 50) || 'chat'
      : 'chats';
  const address = URL.createObjectURL(new Blob([exportText(conversations)], { type: 'application/json' }));
  const link = Object.assign(document.createElement('a'), { href: address, download: `${name}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

export async function importFile(file: File): Promise<void> {
  try {
    if (file.size > MOST_BYTES) throw new NotConversations(`The file is larger than ${MOST_BYTES / 1e6} MB.`);
    const found = importText(await file.text());
    add(found);
    say(`Imported ${plural(found.length, 'chat')}.`);
  } catch (error) {
    if (!(error instanceof NotConversations)) throw error;
    say(`Nothing was imported. ${error.message}`);
  }
}
