/** Where conversations are kept: IndexedDB. Without it (a private window) nothing is kept, and `open` says so. */

import { openDB } from 'idb';
import type { IDBPDatabase } from 'idb';
import { conversationOf, NotConversations } from './exchange.js';
import type { Conversation } from './types.js';

const NAME = 'rlx-demo';
const CONVERSATIONS = 'conversations';

export interface Store {
  all(): Promise<Conversation[]>;
  put(conversation: Conversation): Promise<void>;
  delete(id: string): Promise<void>;
}

/** The store; undefined where the browser has none for this page. */
export async function open(): Promise<Store | undefined> {
  let base: IDBPDatabase;
  try {
    base = await openDB(NAME, 1, {
      upgrade: (made) => void made.createObjectStore(CONVERSATIONS, { keyPath: 'id' }),
    });
  } catch {
    return undefined;
  }
  return {
    all: async () =>
      (await base.getAll(CONVERSATIONS)).flatMap((each) => {
        try {
          return [conversationOf(each, 'A stored conversation')];
        } catch (error) {
          if (error instanceof NotConversations) return [];
          throw error;
        }
      }),
    put: async (conversation) => void (await base.put(CONVERSATIONS, conversation)),
    delete: (id) => base.delete(CONVERSATIONS, id),
  };
}
