/** What the adapters use of an engine: `Engine` fits, and whatever else answers like it. */

import type { Engine } from '../engine.js';
import type { ChatRequest } from '../types.js';

export type ChatEngine = Pick<Engine, 'chat' | 'info' | 'countTokens'>;

/** The settings of a call, without what the adapters make themselves. */
export type Settings = Omit<ChatRequest, 'messages' | 'stream' | 'signal' | 'model'>;
