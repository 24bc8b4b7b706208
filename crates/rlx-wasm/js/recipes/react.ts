/** React: the engine's state as an external store, and a conversation as a hook. */

import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { RlxError } from 'rlx-wasm';
import type { ChatMessage, ChatRequest, Engine } from 'rlx-wasm';
import type { EngineState, EngineStore } from './engine_store.js';

/** The store is made once, outside of components, so that strict mode and remounts load nothing twice. */
export function useEngine(store: EngineStore): EngineState {
  return useSyncExternalStore(store.subscribe, store.get, store.get);
}

type Settings = Omit<ChatRequest, 'messages' | 'stream' | 'signal'>;
const DEFAULT: Settings = {};

/** `settings` is a constant, or memoised. */
export function useChat(engine: Engine | undefined, settings = DEFAULT) {
  const [messages, setMessages] = useState<readonly ChatMessage[]>([]);
  const [error, setError] = useState<unknown>();
  const running = useRef<AbortController | undefined>(undefined);
  const stop = useCallback(() => running.current?.abort(), []);
  useEffect(() => stop, [stop]);

  const send = useCallback(async (content: string) => {
    if (!engine) return;
    stop();
    const { signal } = running.current = new AbortController();
    const asked: readonly ChatMessage[] = [...messages, { role: 'user', content }];
    let answer = '';
    setError(undefined);
    setMessages(asked);
    try {
      for await (const { choices: [choice] } of await engine.chat.completions.create({ ...settings, messages: asked, stream: true, signal })) {
        answer += choice?.delta.content ?? '';
        if (!signal.aborted) setMessages([...asked, { role: 'assistant', content: answer }]);
      }
    } catch (thrown) {
      // What was said before it was stopped stays.
      if (!(thrown instanceof RlxError && thrown.code === 'cancelled')) setError(thrown);
    }
  }, [engine, messages, settings, stop]);

  return { messages, error, send, stop };
}
