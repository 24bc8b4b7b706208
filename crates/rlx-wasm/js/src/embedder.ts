/** `Embedder`: computes vectors of texts. */

import type { Running } from './bring.js';
import { throwIfAborted, usage } from './error.js';
import { Live } from './live.js';
import { heard, listening } from './listeners.js';
import { bringNetwork } from './network.js';
import { embedderFiles } from './network_files.js';
import { embeddings } from './openai/embeddings.js';
import type { Embedded } from './openai/embeddings.js';
import type { CallOptions, EmbeddingList, EmbeddingRequest } from './openai/types.js';
import { platform } from './platform.js';
import type { EmbedCallOptions, EmbedderOptions, EmbedProgress, SessionInfo } from './session_types.js';
import type { WasmSession } from './wasm_session.js';

export class Embedder {
  /** How many numbers a vector has. */
  readonly width: number;
  /** Most tokens of a text, special tokens included; longer texts are cut. */
  readonly maxTokens: number;
  /** Vectors in OpenAI's shape. */
  readonly embeddings: { create(request: EmbeddingRequest, options?: CallOptions): Promise<EmbeddingList<number[] | string>> };
  readonly #live: Live;

  private constructor(running: Running<WasmSession>) {
    const [width = 0, maxTokens = 0] = running.wasm.embedder() ?? [];
    this.width = width;
    this.maxTokens = maxTokens;
    this.#live = new Live(running, 'embedder');
    this.embeddings = embeddings({
      width: this.width,
      embed: (texts, signal) => this.#embed(texts, { ...(signal && { signal }) }),
      modelName: () => this.info().model?.family ?? 'embedder',
    });
  }

  /**
   * Loads an encoder with its tokenizer. This fetches the wasm module's build for such networks.
   *
   * Rejects with an `RlxError`: `usage` (an option), `unsupported` (a model that is no encoder), else as `Engine.load`.
   */
  static async load(options: EmbedderOptions): Promise<Embedder> {
    const files = embedderFiles(options);
    const { pooling = null, normalise = null, maxTokens = null } = options;
    return new Embedder(await bringNetwork(heard(options), files, { embed: { pooling, normalise, maxTokens } }));
  }

  /**
   * Computes a vector of each text, in the order of the texts. A text's vector does not depend on the other texts.
   * Texts run in batches of similar length; between batches the page gets its turn and `signal` is checked. Calls run
   * one after another.
   *
   * Rejects with an `RlxError`: `usage`, `out_of_memory`, `device_lost`, `cancelled` (the signal), `disposed`.
   */
  async embed(texts: readonly string[], options: EmbedCallOptions = {}): Promise<Float32Array[]> {
    return (await this.#embed(texts, options)).vectors;
  }

  async #embed(texts: readonly string[], { signal, onProgress }: EmbedCallOptions): Promise<Embedded> {
    this.#live.check();
    if (!Array.isArray(texts) || !texts.every((text) => typeof text === 'string')) throw usage('embed takes an array of texts', 'texts');
    const all = [...texts];
    const total = all.length;
    if (total === 0) return { vectors: [], tokens: 0 };
    const tell = onProgress && listening(onProgress);
    return this.#live.call(signal, async (wasm) => {
      wasm.embed(all);
      let tokens = 0;
      for (;;) {
        const batch = JSON.parse(await wasm.batch()) as { over: boolean; tokens: number } & EmbedProgress;
        tokens = batch.tokens;
        tell?.({ done: batch.done, total, truncated: batch.truncated });
        if (batch.over) break;
        await platform.yieldToPage();
        throwIfAborted(signal);
      }
      const vectors = wasm.vectors();
      return { vectors: all.map((_, i) => vectors.slice(i * this.width, (i + 1) * this.width)), tokens };
    });
  }

  /** The device and the model. */
  info(): SessionInfo {
    return this.#live.info();
  }

  /** Frees the model's memory. Calls that wait or run end with code `disposed`. Calling it again does nothing. */
  dispose(): void {
    this.#live.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
