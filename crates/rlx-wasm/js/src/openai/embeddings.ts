/** `embedder.embeddings`: vectors of texts in OpenAI's shape. */

import { usage } from '../error.js';
import { signalOf } from './signal.js';
import { parameters } from './parameters.js';
import type { CallOptions, EmbeddingList, EmbeddingRequest } from './types.js';

/** Vectors, and the tokens of their texts. */
export interface Embedded {
  vectors: Float32Array[];
  tokens: number;
}

/** The part of an embedder that calls use. */
export interface EmbeddingContext {
  width: number;
  embed(texts: readonly string[], signal: AbortSignal | undefined): Promise<Embedded>;
  modelName(): string;
}

const READ = { input: true, encoding_format: true, dimensions: true, signal: true } as const;

function base64(vector: Float32Array): string {
  const bytes = new DataView(new ArrayBuffer(vector.length * 4));
  vector.forEach((x, i) => bytes.setFloat32(i * 4, x, true));
  let text = '';
  for (let i = 0; i < bytes.byteLength; i++) text += String.fromCharCode(bytes.getUint8(i));
  return btoa(text);
}

export function embeddings({ width, embed, modelName }: EmbeddingContext) {
  return {
    async create(request: EmbeddingRequest, options?: CallOptions): Promise<EmbeddingList<number[] | string>> {
      const given = parameters<EmbeddingRequest & { dimensions?: number }>(request, READ);
      const texts = typeof given.input === 'string' ? [given.input] : given.input;
      if (!Array.isArray(texts) || texts.length === 0 || !texts.every((text) => typeof text === 'string')) {
        throw usage('input must be a text or a list of texts', 'input');
      }
      const format = given.encoding_format ?? 'float';
      if (format !== 'float' && format !== 'base64') throw usage(`encoding_format is ${String(format)}, it must be float or base64`, 'encoding_format');
      if (given.dimensions !== undefined && given.dimensions !== width) {
        throw usage(`dimensions is not done by RLX: the model's vectors have ${width} numbers`, 'dimensions');
      }
      const { vectors, tokens } = await embed(texts, signalOf(request, options));
      return {
        object: 'list',
        data: vectors.map((vector, index) => ({ object: 'embedding', index, embedding: format === 'base64' ? base64(vector) : [...vector] })),
        model: modelName(),
        usage: { prompt_tokens: tokens, total_tokens: tokens },
      };
    },
  };
}
