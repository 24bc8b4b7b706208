/** The executors that a benchmark measures: whether this page has them, and how each is loaded and asked. */

import { Engine } from 'rlx-wasm';
import type { LoadOptions } from 'rlx-wasm';
import { device } from '../state/engine.js';
import type { Source } from '../state/engine.js';
import { wllama } from './peer.js';
import type { Benchmark, Executor, Missing, Turn } from './types.js';

/** A prompt: its tokens, and the same as a text for engines that take no tokens. */
export interface Prompt {
  ids: readonly number[];
  text: string;
}

/** A model that is loaded on an executor. */
export interface Running {
  executor: Executor;
  adapter: string;
  threads: number | null;
  weightBytes: number | null;
  /** What the package's engines know beside that. */
  own?: {
    model: Benchmark['model'];
    tokenize(text: string): Promise<number[]>;
    detokenize(ids: readonly number[]): Promise<string>;
  };
  turn(prompt: Prompt, tokens: number, signal: AbortSignal): Promise<Omit<Turn, 'asked'>>;
  memory(): Promise<number | null>;
  dispose(): Promise<void> | void;
}

export interface Candidate {
  executor: Executor;
  load(context: number, signal: AbortSignal): Promise<Running>;
}

const WHY_NO_THREADS =
  'This page may not share memory with workers: its server does not send the headers that make it cross-origin isolated (Cross-Origin-Opener-Policy: same-origin, Cross-Origin-Embedder-Policy: require-corp).';

/** What can be measured here, and what cannot, with the reason. */
export async function candidates(
  source: Source,
  peers: boolean,
  signal: AbortSignal,
): Promise<{ there: Candidate[]; missing: Missing[]; context: number; bytes: number }> {
  // What `auto` says of the GPU: a simulated one is slower than the processor by itself.
  const asked = device === 'webgpu' ? 'webgpu' : 'auto';
  const estimate = await Engine.estimate({ model: source.model, device: asked, signal });
  if (estimate.refusal) throw estimate.refusal;
  const there: Candidate[] = [];
  const missing: Missing[] = [];
  const cpu = (executor: Executor, threads?: number): Candidate => ({
    executor,
    load: own(source, executor, { device: 'cpu', ...(threads && { threads }) }),
  });
  if (estimate.device === 'webgpu')
    there.push({ executor: 'webgpu', load: own(source, 'webgpu', { device: 'webgpu' }) });
  else missing.push({ executor: 'webgpu', why: sentence(estimate.fallbackReason ?? 'it is not available') });
  const several = crossOriginIsolated && navigator.hardwareConcurrency > 1;
  const why = crossOriginIsolated ? 'This device shows one processor core to pages.' : WHY_NO_THREADS;
  if (several) there.push(cpu('threads'));
  else missing.push({ executor: 'threads', why });
  there.push(cpu('thread', 1));
  if (peers) {
    const threads = Math.min(navigator.hardwareConcurrency, 8); // as many as the package takes by default
    if (several) there.push({ executor: 'wllama-threads', load: wllama(source, threads) });
    else missing.push({ executor: 'wllama-threads', why });
    there.push({ executor: 'wllama-thread', load: wllama(source, 1) });
  }
  return { there, missing, context: estimate.contextLength, bytes: estimate.memoryBytes };
}

const sentence = (text: string) => `${text[0]!.toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

/** Loads the model by the package. */
const own =
  (source: Source, executor: Executor, options: Partial<LoadOptions>): Candidate['load'] =>
  async (contextLength, signal) => {
    const engine = await Engine.load({
      model: source.model,
      contextLength,
      conversationBytes: 0, // no turn goes on from another
      signal,
      ...options,
    });
    const { adapter, weightBytes, model, device: runs } = engine.info();
    const threads = runs === 'cpu' ? Number(/(\d+) threads?$/.exec(adapter)?.[1] ?? 1) : null;
    return {
      executor,
      adapter,
      threads,
      weightBytes,
      own: {
        model: { name: model.name, architecture: model.architecture },
        tokenize: async (text) => [...(await engine.tokenize(text))],
        detokenize: (ids) => engine.detokenize(ids),
      },
      async turn({ ids }, tokens, signal) {
        const request = { prompt: ids, max_tokens: tokens, temperature: 0, ignore_eos: true };
        const { usage } = await engine.completions.create(request, { signal });
        const extra = usage.extra!;
        return {
          prompt_tokens: usage.prompt_tokens - engine.info().reusedTokens,
          tokens: usage.completion_tokens,
          prompt_tokens_per_s: extra.prefill_tokens_per_s,
          decode_tokens_per_s: extra.decode_tokens_per_s,
          first_token_ms: extra.time_to_first_token_s === null ? null : extra.time_to_first_token_s * 1000,
        };
      },
      async memory() {
        const { gpu, wasm } = await engine.memory();
        return wasm + (gpu ? gpu.weights + gpu.arena + gpu.other : 0);
      },
      dispose: () => engine[Symbol.asyncDispose](),
    };
  };
