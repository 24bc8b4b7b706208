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

import type {
  EmbeddingModelV4, LanguageModelV4, LanguageModelV4Content, LanguageModelV4FinishReason, LanguageModelV4StreamPart,
  LanguageModelV4ToolCall, LanguageModelV4Usage, SharedV4Warning,
} from '@ai-sdk/provider';
import type { Embedder } from '../embedder.js';
import type { AnswerMessage, ChatCompletionChunk, ChatDelta, ChatRequest, FinishReason, ToolCall, Usage } from '../openai/types.js';
import { PROVIDER, toRequest, unsupported } from './ai_sdk_input.js';
import type { ChatEngine } from './engine.js';

/**
 * The engine's model. `providerOptions: { rlx: { min_p: 0.1 } }` takes the settings of `ChatRequest` that the SDK has no
 * name for. What the engine cannot do, such as files, is an `UnsupportedFunctionalityError`.
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
        content: contentOf(message),
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

/** The request as data, for who looks at it. */
const body = ({ signal: _, ...request }: ChatRequest) => request;

const toolCall = ({ id, function: { name, arguments: input } }: ToolCall): LanguageModelV4ToolCall =>
  ({ type: 'tool-call', toolCallId: id, toolName: name, input });

function contentOf({ reasoning_content: thoughts, content, tool_calls: calls = [] }: AnswerMessage): LanguageModelV4Content[] {
  return [
    ...(thoughts ? [{ type: 'reasoning' as const, text: thoughts }] : []),
    ...(content ? [{ type: 'text' as const, text: content }] : []),
    ...calls.map(toolCall),
  ];
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

/** The parts that deltas become: thoughts and texts in blocks that they begin and end, and whole calls. */
class Blocks {
  #open: { kind: 'reasoning' | 'text'; id: string } | undefined;
  #begun = 0;

  *add({ reasoning_content: thought, content, tool_calls: calls = [] }: ChatDelta): Generator<LanguageModelV4StreamPart> {
    if (thought) yield* this.#block('reasoning', thought);
    if (content) yield* this.#block('text', content);
    for (const call of calls) {
      yield* this.end();
      const { id, function: { name, arguments: delta } } = call;
      yield { type: 'tool-input-start', id, toolName: name };
      yield { type: 'tool-input-delta', id, delta };
      yield { type: 'tool-input-end', id };
      yield toolCall(call);
    }
  }

  *end(): Generator<LanguageModelV4StreamPart> {
    if (this.#open) yield { type: `${this.#open.kind}-end`, id: this.#open.id };
    this.#open = undefined;
  }

  *#block(kind: 'reasoning' | 'text', delta: string): Generator<LanguageModelV4StreamPart> {
    if (this.#open?.kind !== kind) {
      yield* this.end();
      this.#open = { kind, id: String(this.#begun++) };
      yield { type: `${kind}-start`, id: this.#open.id };
    }
    yield { type: `${kind}-delta`, id: this.#open.id, delta };
  }
}

/** The SDK's parts of an answer. An error is a part too; what the signal ended is thrown. */
async function* parts(
  chunks: AsyncIterable<ChatCompletionChunk>, warnings: SharedV4Warning[], signal: AbortSignal, raw: boolean,
): AsyncGenerator<LanguageModelV4StreamPart> {
  const blocks = new Blocks();
  let begun = false;
  yield { type: 'stream-start', warnings };
  try {
    for await (const chunk of chunks) {
      const { id, created, model, choices, usage } = chunk;
      const { delta, finish_reason } = choices[0]!;
      if (raw) yield { type: 'raw', rawValue: chunk };
      if (!begun) yield { type: 'response-metadata', id, timestamp: new Date(created * 1000), modelId: model };
      begun = true;
      yield* blocks.add(delta);
      if (finish_reason && usage) {
        yield* blocks.end();
        yield { type: 'finish', finishReason: finishReason(finish_reason), usage: toUsage(usage) };
      }
    }
  } catch (error) {
    if (signal.aborted) throw error;
    yield { type: 'error', error };
    yield { type: 'finish', finishReason: { unified: 'error', raw: undefined }, usage: NO_USAGE };
  }
}
