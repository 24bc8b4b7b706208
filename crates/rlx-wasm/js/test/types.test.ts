/** Types as facts: this file need only compile. */

import type { EmbeddingModel, LanguageModel } from 'ai';
import type { BaseChatModel } from '@langchain/core/language_models/chat_models';
import type { Runnable } from '@langchain/core/runnables';
import { embeddingModel, languageModel } from '../src/adapters/ai_sdk.js';
import { ChatRlx } from '../src/adapters/langchain.js';
import type { LanguageModelSource } from '../src/adapters/language_model.js';
import type {
  ChatCompletion, ChatCompletionChunk, Completions, Embedder, EmbedderOptions, Engine, LoadOptions, Session, SessionOptions,
} from '../src/index.js';

export const loads = [
  { model: 'a.gguf' },
  { model: new URL('https://a/b.gguf'), device: 'cpu' },
  { model: ['a', 'b'], device: 'webgpu', contextLength: 1024, cache: false, kv: 'f16', activations: 'int8' },
  { model: 'a', device: 'cpu', kv: 'q8_0' },
  { model: 'https://a/b/', blockLength: 16 },
  { model: [] as File[], signal: new AbortController().signal, onProgress: ({ loadedBytes }) => void (loadedBytes satisfies number) },
  // @ts-expect-error a device that is not one of the three
  { model: 'a', device: 'gpu' },
  // @ts-expect-error a type that no cache has
  { model: 'a', kv: 'q4_0' },
  // @ts-expect-error addresses and files do not mix
  { model: ['a', new Blob()] },
  // @ts-expect-error a typing mistake
  { model: 'a', contextLenght: 1 },
] satisfies LoadOptions[];

export async function calls(completions: Completions, engine: Engine): Promise<void> {
  const messages = [{ role: 'user', content: 'hi' }] as const;
  (await completions.create({ messages })) satisfies ChatCompletion;
  (await completions.create({ messages, stream: true })) satisfies AsyncIterable<ChatCompletionChunk>;
  // @ts-expect-error a stream has no choices of its own
  (await completions.create({ messages, stream: true })).choices;
  // @ts-expect-error OpenAI's names, not camel case
  await completions.create({ messages, maxTokens: 3 });
  // @ts-expect-error no role
  await completions.create({ messages: [{ role: 'robot', content: '' }] });
  engine satisfies Disposable;
  engine.info().device satisfies 'webgpu' | 'cpu';
  // @ts-expect-error made by load only
  new (0 as unknown as typeof Engine)();
}

export const sessions = [
  { model: 'a.gguf' },
  { model: 'https://a/b/', config: new Blob(), activations: 'int8' },
  { graph: 'module @x', weights: new Blob(), device: 'webgpu', signal: new AbortController().signal },
  { model: 'a', contextLength: 1024 },
  // @ts-expect-error a chat's option
  { model: 'a', kv: 'f16' },
  // @ts-expect-error no text
  { graph: new Blob() },
] satisfies SessionOptions[];

export const embedders = [
  { model: 'a/', pooling: 'cls', normalise: false, maxTokens: 64 },
  // @ts-expect-error no kind of pooling
  { model: 'a', pooling: 'sum' },
  // @ts-expect-error a model there must be
  { device: 'cpu' },
] satisfies EmbedderOptions[];

export async function networks(session: Session, embedder: Embedder): Promise<void> {
  const { y } = await session.run('f', { x: { data: new Float32Array(2), dims: [1, 2] } }, { signal: new AbortController().signal });
  y!.dims satisfies number[];
  session.entries[0]!.inputs[0]!.shape satisfies (number | string)[];
  (await embedder.embed(['a'], { onProgress: ({ done, total }) => void (done / total) })) satisfies Float32Array[];
  session satisfies Disposable;
  embedder satisfies Disposable;
  session.info().device satisfies 'webgpu' | 'cpu';
  // @ts-expect-error a GPU's buffer is not taken
  await session.run('f', { x: { data: {} as GPUBuffer, dims: [1] } });
}

export function peers(engine: Engine, embedder: Embedder): void {
  languageModel(engine) satisfies LanguageModel;
  embeddingModel(embedder) satisfies EmbeddingModel;
  new ChatRlx({ engine, temperature: 0 }) satisfies BaseChatModel;
  new ChatRlx({ engine }).bindTools([{ name: 'f', schema: {} }], { tool_choice: 'none', min_p: 0 }) satisfies Runnable;
  // @ts-expect-error OpenAI's names, not camel case
  new ChatRlx({ engine, maxTokens: 1 });
  ({ engine }) satisfies LanguageModelSource;
  // @ts-expect-error sessions have signals of their own
  ({ model: 'a', signal: new AbortController().signal }) satisfies LanguageModelSource;
}
