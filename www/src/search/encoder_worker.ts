/** The thread of the encoder. */

import { Embedder } from 'rlx-wasm';
import { modelOf, serve, whereOf } from '../state/thread_serve.js';
import type { Telling } from '../state/thread_serve.js';
import type { LoadAsk } from '../state/thread_types.js';
import type { EmbedAsk, EncoderInfo, Vectors } from './protocol.js';

let embedder: Embedder | undefined;

serve<EmbedAsk>(
  (ask, telling) => ('load' in ask ? load(ask, telling) : embed(ask.embed)),
  (result) => ('vectors' in result ? [(result as Vectors).vectors.buffer] : []),
);

async function load(ask: LoadAsk, telling: Telling): Promise<EncoderInfo> {
  embedder = await Embedder.load({ model: modelOf(ask), device: ask.load.device, normalise: true, ...telling });
  const { width, maxTokens } = embedder;
  return { width, maxTokens, ...whereOf(embedder.info()) };
}

async function embed(texts: readonly string[]): Promise<Vectors> {
  const { width } = embedder!;
  let truncated = 0;
  const rows = await embedder!.embed(texts, { onProgress: (progress) => (truncated = progress.truncated) });
  const vectors = new Float32Array(rows.length * width);
  rows.forEach((row, i) => vectors.set(row, i * width));
  return { vectors, truncated };
}
