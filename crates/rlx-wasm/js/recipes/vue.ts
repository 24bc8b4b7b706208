/** Vue: the engine's state as a ref, and a conversation as a composable. */

import { RlxError } from 'rlx-wasm';
import type { ChatMessage, ChatRequest } from 'rlx-wasm';
import { onScopeDispose, ref, shallowRef } from 'vue';
import type { ShallowRef } from 'vue';
import type { EngineState, EngineStore } from './engine_store.js';

/** Shallow, for an engine must not become a proxy. */
export function useEngine(store: EngineStore): ShallowRef<EngineState> {
  const state = shallowRef(store.get());
  onScopeDispose(store.subscribe(() => {
    state.value = store.get();
  }));
  state.value = store.get();
  return state;
}

type Settings = Omit<ChatRequest, 'messages' | 'stream' | 'signal'>;

export function useChat(state: ShallowRef<EngineState>, settings: Settings = {}) {
  const messages = ref<ChatMessage[]>([]);
  const error = shallowRef<unknown>();
  let running: AbortController | undefined;
  const stop = () => running?.abort();
  onScopeDispose(stop);

  async function send(content: string): Promise<void> {
    if (state.value.status !== 'ready') return;
    stop();
    const { signal } = running = new AbortController();
    error.value = undefined;
    // Plain data: a worker cannot be given proxies.
    const asked: ChatMessage[] = [...messages.value.map((message) => ({ ...message })), { role: 'user', content }];
    let answer = '';
    messages.value = asked;
    try {
      const { completions } = state.value.engine.chat;
      for await (const { choices: [choice] } of await completions.create({ ...settings, messages: asked, stream: true, signal })) {
        answer += choice?.delta.content ?? '';
        if (!signal.aborted) messages.value = [...asked, { role: 'assistant', content: answer }];
      }
    } catch (thrown) {
      if (!(thrown instanceof RlxError && thrown.code === 'cancelled')) error.value = thrown;
    }
  }

  return { messages, error, send, stop };
}
