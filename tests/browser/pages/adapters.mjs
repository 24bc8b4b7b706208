// What an application bundles that uses RLX through other libraries.

import { StringOutputParser } from '@langchain/core/output_parsers';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { generateText, streamText } from 'ai';
import { createElement, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Engine } from 'rlx-wasm';
import { languageModel } from 'rlx-wasm/ai-sdk';
import { ChatRlx } from 'rlx-wasm/langchain';
import { install } from 'rlx-wasm/language-model';
import { EngineStore } from '../../../crates/rlx-wasm/js/recipes/engine_store.ts';
import { useChat, useEngine } from '../../../crates/rlx-wasm/js/recipes/react.ts';

const options = (model) => ({ model, device: 'cpu', cache: false });
const limits = { temperature: 0, max_tokens: 8 };

async function joined(texts) {
  let all = '';
  for await (const text of texts) all += text;
  return all;
}

/** A conversation by the recipe for React. */
function Chat({ store }) {
  const state = useEngine(store);
  const { messages, error, send } = useChat(state.engine, limits);
  return createElement('div', {},
    createElement('p', { id: 'status' }, state.status),
    createElement('p', { id: 'error' }, String(error ?? state.error ?? '')),
    createElement('button', { id: 'ask', onClick: () => send('Hello') }, 'Ask'),
    messages.map(({ role, content }, i) => createElement('p', { key: i, className: role }, content)));
}

globalThis.adapters = {
  load: (model) => Engine.load(options(model)),

  async plain(engine) {
    const { choices } = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], ...limits });
    return choices[0].message.content;
  },

  async aiSdk(engine) {
    const call = { model: languageModel(engine), prompt: 'Hello', temperature: 0, maxOutputTokens: 8 };
    const { text, usage, finishReason } = await generateText(call);
    return { text, streamed: await joined(streamText(call).textStream), tokens: usage.outputTokens, finishReason };
  },

  async langchain(engine) {
    const chain = ChatPromptTemplate.fromMessages([['human', '{word}']]).pipe(new ChatRlx({ engine, ...limits })).pipe(new StringOutputParser());
    return { text: await chain.invoke({ word: 'Hello' }), streamed: await joined(await chain.stream({ word: 'Hello' })) };
  },

  react(model) {
    const place = document.body.appendChild(document.createElement('div'));
    createRoot(place).render(createElement(StrictMode, {}, createElement(Chat, { store: new EngineStore(options(model)) })));
  },

  /** Installs the Prompt API, over one that the browser may have, so that the test is of ours. */
  install(model) {
    delete globalThis.LanguageModel;
    return install({ ...options(model), contextLength: 64 });
  },

  async prompt() {
    const { LanguageModel } = globalThis;
    const states = [await LanguageModel.availability()];
    const progress = [];
    const session = await LanguageModel.create({
      samplingMode: 'most-predictable', monitor: (m) => m.addEventListener('downloadprogress', ({ loaded }) => progress.push(loaded)),
    });
    states.push(await LanguageModel.availability());
    const measured = await session.measureContextUsage('Hello');
    const clone = await session.clone();
    const text = await session.prompt('Hello');
    const streamed = await joined(clone.promptStreaming('Hello'));
    const { contextUsage: used, contextWindow: window } = session;
    session.destroy();
    clone.destroy();
    return { states, progress, measured, text, streamed, used, window };
  },
};
