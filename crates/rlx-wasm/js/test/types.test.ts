/** Types as facts: this file need only compile. */

import type { ChatCompletion, ChatCompletionChunk, Completions, Engine, LoadOptions } from '../src/index.js';

export const loads = [
  { model: 'a.gguf' },
  { model: new URL('https://a/b.gguf'), device: 'cpu' },
  { model: ['a', 'b'], device: 'webgpu', contextLength: 1024, cache: false, kv: 'f16', activations: 'int8' },
  { model: 'a', device: 'cpu', kv: 'q8_0' },
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
  // @ts-expect-error a tool's message
  await completions.create({ messages: [{ role: 'tool', content: '' }] });
  engine satisfies Disposable;
  engine.info().device satisfies 'webgpu' | 'cpu';
  // @ts-expect-error made by load only
  new (0 as unknown as typeof Engine)();
}
