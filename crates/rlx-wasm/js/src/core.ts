/** What an engine can do, wherever its model is: in this thread (`LocalEngine`) or behind a port (`RemoteEngine`). */

import type { ChatMessage, Completions, TextCompletions } from './openai/types.js';
import type { EngineInfo, EngineMemory, ReloadOptions, TokenizeOptions } from './types.js';

/** The methods of `Engine`, which are explained there. */
export interface Core {
  readonly chat: { readonly completions: Completions };
  readonly completions: TextCompletions;
  info(): EngineInfo;
  tokenize(text: string, options?: TokenizeOptions): Promise<Uint32Array>;
  detokenize(ids: Iterable<number>): Promise<string>;
  countTokens(input: string | readonly ChatMessage[]): Promise<number>;
  memory(): Promise<EngineMemory>;
  reload(options?: ReloadOptions): Promise<void>;
  /** Resolves when the memory is free. */
  dispose(): Promise<void>;
}
