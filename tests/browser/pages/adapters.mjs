// What an application bundles that uses RLX through other libraries.

import { HumanMessage } from '@langchain/core/messages';
import { StringOutputParser } from '@langchain/core/output_parsers';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { tool as langchainTool } from '@langchain/core/tools';
import { generateText, isStepCount, jsonSchema, streamText, tool } from 'ai';
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

const question = 'What is the weather in Bern?';
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };

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

  /** The SDK runs the function itself and asks again. */
  async aiSdkTools(engine) {
    const call = () => {
      const asked = [];
      const execute = async ({ city }) => {
        asked.push(city);
        return 'sunny';
      };
      const weather = tool({ description: 'Tells the weather.', inputSchema: jsonSchema(schema), execute });
      return { asked, options: { model: languageModel(engine), prompt: question, tools: { weather }, stopWhen: isStepCount(3), temperature: 0, maxOutputTokens: 40 } };
    };
    const [whole, streamed] = [call(), call()];
    const { text, steps, finishReason } = await generateText(whole.options);
    const stream = streamText(streamed.options);
    const told = { text: await joined(stream.textStream), asked: streamed.asked, reasons: (await stream.steps).map((step) => step.finishReason) };
    return [{ text, asked: whole.asked, reasons: steps.map((step) => step.finishReason) }, told, { finishReason, thoughts: steps[0].reasoningText }];
  },

  async langchainTools(engine) {
    const asked = [];
    const weather = langchainTool(async ({ city }) => {
      asked.push(city);
      return 'sunny';
    }, { name: 'weather', description: 'Tells the weather.', schema });
    const chat = new ChatRlx({ engine, temperature: 0, max_tokens: 40 }).bindTools([weather]);
    const streamed = async (messages) => {
      let all;
      for await (const chunk of await chat.stream(messages)) all = all ? all.concat(chunk) : chunk;
      return all;
    };
    const answers = [];
    for (const ask of [(messages) => chat.invoke(messages), streamed]) {
      const messages = [new HumanMessage(question)];
      const call = await ask(messages);
      const results = await Promise.all(call.tool_calls.map((each) => weather.invoke(each)));
      const { content: text } = await ask([...messages, call, ...results]);
      answers.push({ text, asked: asked.splice(0), reason: call.response_metadata.finish_reason });
    }
    return answers;
  },

  /** The first tokens of an answer, as LangChain tells how likely they were, whole and streamed, and as the engine does. */
  async logprobs(engine) {
    const options = { ...limits, logprobs: true, top_logprobs: 2 };
    const chat = new ChatRlx({ engine, ...options });
    const whole = await chat.invoke('Hello');
    let streamed;
    for await (const chunk of await chat.stream('Hello')) streamed = streamed ? streamed.concat(chunk) : chunk;
    const { choices } = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], ...options });
    return { told: [whole, streamed].map(({ response_metadata }) => response_metadata.logprobs), want: choices[0].logprobs };
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

  async promptTools(model) {
    delete globalThis.LanguageModel;
    install(options(model));
    const asked = [];
    const execute = async ({ city }) => {
      asked.push(city);
      return 'sunny';
    };
    const tools = [{ name: 'weather', description: 'Tells the weather.', inputSchema: schema, execute }];
    const answers = [];
    for (const ask of [(session) => session.prompt(question), (session) => joined(session.promptStreaming(question))]) {
      const session = await globalThis.LanguageModel.create({ samplingMode: 'most-predictable', tools });
      answers.push({ text: await ask(session), asked: asked.splice(0) });
      session.destroy();
    }
    return answers;
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
