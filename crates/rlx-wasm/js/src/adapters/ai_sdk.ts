/**
 * Models for Vercel's AI SDK (`ai` 7, language model specification v4).
 *
 * ```js
 * import { generateText } from 'ai';
 * import { languageModel } from 'rlx-wasm/ai-sdk';
 * const { text } = await generateText({ model: languageModel(engine), prompt: 'What does Vec::push do?' });
 * ```
 *
 * `customProvider` of `ai` makes a provider of several models.
 */

import { UnsupportedFunctionalityError } from '@ai-sdk/provider';
import type {
  EmbeddingModelV4, LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4FinishReason, LanguageModelV4Prompt,
  LanguageModelV4StreamPart, LanguageModelV4Usage, SharedV4Warning,
} from '@ai-sdk/provider';
import type { Embedder } from '../embedder.js';
import type { ChatCompletionChunk, ChatMessage, ChatRequest, FinishReason, Usage } from '../openai/types.js';
import type { ChatEngine } from './engine.js';

/** The name of ours in `providerOptions`. */
const PROVIDER = 'rlx';

/**
 * The engine's model. `providerOptions: { rlx: { min_p: 0.1 } }` takes the settings of `ChatRequest` that the SDK has no
 * name for. What the engine cannot do (tools, JSON output, files) is an `UnsupportedFunctionalityError`.
 */
export function languageModel(engine: ChatEngine): LanguageModelV4 {
  const { completions } = engine.chat;
  return {
    specificationVersion: 'v4',
    provider: PROVIDER,
    modelId: engine.info().model.name,
    supportedUrls: {},

    async doGenerate(options) {
      const { request, warnings } = toRequest(options);
      const { id, created, model, choices, usage } = await completions.create(request);
      const { message, finish_reason } = choices[0]!;
      return {
        content: [{ type: 'text', text: message.content ?? '' }],
        finishReason: finishReason(finish_reason),
        usage: toUsage(usage),
        request: { body: body(request) },
        response: { id, timestamp: new Date(created * 1000), modelId: model },
        warnings,
      };
    },

    async doStream(options) {
      const { request, warnings } = toRequest(options);
      const leave = new AbortController();
      const signal = request.signal ? AbortSignal.any([request.signal, leave.signal]) : leave.signal;
      const chunks = await completions.create({ ...request, signal, stream: true });
      const stream = readable(parts(chunks, warnings, signal, options.includeRawChunks ?? false), () => leave.abort());
      return { stream, request: { body: body(request) } };
    },
  };
}

/** The embedder's model, with the name that the application gives it. */
export function embeddingModel(embedder: Embedder, modelId = 'embedder'): EmbeddingModelV4 {
  return {
    specificationVersion: 'v4',
    provider: PROVIDER,
    modelId,
    maxEmbeddingsPerCall: Infinity,
    supportsParallelCalls: false,

    async doEmbed({ values, dimensions, abortSignal: signal }) {
      if (dimensions !== undefined && dimensions !== embedder.width) {
        throw unsupported('dimensions', `the model's vectors have ${embedder.width} numbers, not ${dimensions}`);
      }
      let cut = 0;
      const vectors = await embedder.embed(values, {
        onProgress: ({ truncated }) => {
          cut = truncated;
        },
        ...(signal && { signal }),
      });
      const warnings: SharedV4Warning[] = cut === 0 ? [] : [{
        type: 'other', message: `${cut} of ${values.length} texts were cut, for they have more than ${embedder.maxTokens} tokens`,
      }];
      return { embeddings: vectors.map((vector) => [...vector]), warnings };
    },
  };
}

const unsupported = (functionality: string, message: string) => new UnsupportedFunctionalityError({ functionality, message: `rlx: ${message}` });

/** The engine's request for a call, and warnings of what the engine does not heed. */
function toRequest(options: LanguageModelV4CallOptions): { request: ChatRequest & { stream?: false }; warnings: SharedV4Warning[] } {
  const warnings: SharedV4Warning[] = [];
  const warn = (feature: string, details: string) => warnings.push({ type: 'unsupported', feature, details });
  if (options.tools?.length && options.toolChoice?.type !== 'none') throw unsupported('tools', 'tools are not supported yet');
  if (options.responseFormat?.type === 'json') throw unsupported('responseFormat', 'JSON output is not supported yet');
  if (options.reasoning && options.reasoning !== 'provider-default') warn('reasoning', 'the model reasons as its chat template says');
  const settings: Partial<Record<keyof ChatRequest, unknown>> = {
    max_tokens: options.maxOutputTokens,
    temperature: options.temperature,
    top_p: options.topP,
    top_k: options.topK,
    presence_penalty: options.presencePenalty,
    frequency_penalty: options.frequencyPenalty,
    seed: options.seed,
    stop: options.stopSequences,
    signal: options.abortSignal,
  };
  const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
  const request = { ...options.providerOptions?.[PROVIDER], ...given, messages: toMessages(options.prompt, warn), stream: false as const };
  return { request, warnings };
}

/** The request as data, for who looks at it. */
const body = ({ signal: _, ...request }: ChatRequest) => request;

function toMessages(prompt: LanguageModelV4Prompt, warn: (feature: string, details: string) => void): ChatMessage[] {
  return prompt.map(({ role, content }): ChatMessage => {
    if (role === 'system') return { role, content };
    if (role === 'tool') throw unsupported('tool messages', 'messages of tools are not supported yet');
    let text = '';
    for (const part of content) {
      if (part.type === 'text') text += part.text;
      else if (part.type === 'reasoning') warn('reasoning parts', 'the thoughts of earlier answers are left out');
      else throw unsupported(`${part.type} parts`, `${role} messages with ${part.type} parts are not supported`);
    }
    return { role, content: text };
  });
}

const FINISH: Record<FinishReason, LanguageModelV4FinishReason['unified']> = { stop: 'stop', length: 'length', tool_calls: 'tool-calls' };

const finishReason = (raw: FinishReason): LanguageModelV4FinishReason => ({ unified: FINISH[raw], raw });

function toUsage(usage: Usage): LanguageModelV4Usage {
  const { prompt_tokens, completion_tokens } = usage;
  return {
    inputTokens: { total: prompt_tokens, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: completion_tokens, text: undefined, reasoning: undefined },
    raw: { ...usage },
  };
}

const NO_USAGE: LanguageModelV4Usage = {
  inputTokens: { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: undefined, text: undefined, reasoning: undefined },
};

/** Items as a stream, read one by one as the reader asks for them. `cancel` is called when the reader leaves. */
function readable<T>(items: AsyncIterator<T>, cancel: () => void): ReadableStream<T> {
  return new ReadableStream<T>({
    async pull(out) {
      const { value, done } = await items.next();
      if (done) out.close();
      else out.enqueue(value);
    },
    cancel,
  }, { highWaterMark: 0 });
}

/** The SDK's parts of an answer: one block of text. An error is a part too; what the signal ended is thrown. */
async function* parts(
  chunks: AsyncIterable<ChatCompletionChunk>, warnings: SharedV4Warning[], signal: AbortSignal, raw: boolean,
): AsyncGenerator<LanguageModelV4StreamPart> {
  const block = 'text';
  let state: 'start' | 'head' | 'text' = 'start';
  yield { type: 'stream-start', warnings };
  try {
    for await (const chunk of chunks) {
      const { id, created, model, choices, usage } = chunk;
      const { delta, finish_reason } = choices[0]!;
      if (raw) yield { type: 'raw', rawValue: chunk };
      if (state === 'start') {
        yield { type: 'response-metadata', id, timestamp: new Date(created * 1000), modelId: model };
        state = 'head';
      }
      if (delta.content) {
        if (state === 'head') yield { type: 'text-start', id: block };
        state = 'text';
        yield { type: 'text-delta', id: block, delta: delta.content };
      }
      if (finish_reason && usage) {
        if (state === 'text') yield { type: 'text-end', id: block };
        yield { type: 'finish', finishReason: finishReason(finish_reason), usage: toUsage(usage) };
      }
    }
  } catch (error) {
    if (signal.aborted) throw error;
    yield { type: 'error', error };
    yield { type: 'finish', finishReason: { unified: 'error', raw: undefined }, usage: NO_USAGE };
  }
}
