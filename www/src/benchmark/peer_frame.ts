/** What runs in `peers.html`: wllama, asked by the page through a port. */

import { Wllama } from '@wllama/wllama';
import wasm from '@wllama/wllama/esm/wasm/wllama.wasm?url';
import type { Turn } from './types.js';

export type ToPeer =
  { load: { files: Blob[]; threads: number; context: number } } | { turn: { text: string; tokens: number } };
export type FromPeer = { done: unknown } | { failed: string };

const silent = () => {};
const wllama = new Wllama(
  { default: new URL(wasm, location.href).href },
  { suppressNativeLog: true, logger: { debug: silent, log: silent, warn: silent, error: silent } },
);

async function hear(asked: ToPeer): Promise<unknown> {
  if ('load' in asked) {
    const { files, threads, context } = asked.load;
    // As llama.cpp's own server would run it on a processor, with the caches of f16 that the package has too.
    await wllama.loadModel(files, {
      n_threads: threads,
      n_gpu_layers: 0,
      n_ctx: context,
      n_batch: 512,
      n_ubatch: 512,
      n_parallel: 1,
      cache_type_k: 'f16',
      cache_type_v: 'f16',
      flash_attn: true,
      warmup: true,
    });
    return { threads: wllama.isMultithread() ? wllama.getNumThreads() : 1 };
  }
  const { text: prompt, tokens } = asked.turn;
  // A constant, because wllama's types lack the last one.
  const request = { prompt, max_tokens: tokens, temperature: 0, top_k: 1, ignore_eos: true, cache_prompt: false };
  const { timings } = await wllama.createCompletion(request);
  if (!timings) throw new Error('wllama does not say how long it took');
  const turn: Omit<Turn, 'asked'> = {
    prompt_tokens: timings.prompt_n,
    tokens: timings.predicted_n,
    prompt_tokens_per_s: timings.prompt_per_second,
    decode_tokens_per_s: tokens > 1 ? timings.predicted_per_second : null,
    first_token_ms: timings.prompt_ms,
  };
  return turn;
}

addEventListener('message', ({ origin, ports: [port] }) => {
  if (origin !== location.origin || !port) return;
  port.onmessage = ({ data }: MessageEvent<ToPeer>) =>
    hear(data).then(
      (done) => port.postMessage({ done } satisfies FromPeer),
      (error: unknown) =>
        port.postMessage({ failed: error instanceof Error ? error.message : String(error) } satisfies FromPeer),
    );
});
parent.postMessage('ready', location.origin);
