/** What a benchmark is made of, as it is shown and as its JSON has it. */

/** What can run the model here; `wllama` is llama.cpp in wasm. */
export type Executor = 'webgpu' | 'threads' | 'thread' | 'wllama-threads' | 'wllama-thread';

/** One call: a prompt, then an answer. Rates are those that the engine measured itself; null where it could not. */
export interface Turn {
  /** The length that was asked for; the tokenizer of another engine may begin it with a token more. */
  asked: number;
  prompt_tokens: number;
  tokens: number;
  prompt_tokens_per_s: number | null;
  decode_tokens_per_s: number | null;
  first_token_ms: number | null;
}

/** How fast memory is read, and how that was measured. */
export interface Bandwidth {
  bytes_per_s: number;
  how: 'gpu copies, reads and writes counted' | 'wasm reads of as many bytes as the weights have';
  threads: number;
}

/** What an executor did. */
export interface Measured {
  executor: Executor;
  /** The GPU, or the SIMD level and the threads. */
  adapter: string;
  threads: number | null;
  load_ms: number;
  turns: Turn[];
  /** Bytes that it holds; null where it does not say. */
  memory_bytes: number | null;
  weight_bytes: number | null;
  bandwidth: Bandwidth | null;
}

/** An executor that could not be measured, and why. */
export interface Missing {
  executor: Executor;
  why: string;
}

/** What was asked of every executor. */
export interface Plan {
  prompts: readonly number[];
  /** Tokens of an answer. */
  tokens: number;
  rounds: number;
  context: number;
  /** Whether all executors were loaded at the same time and took turns: else one came after the other. */
  in_turns: boolean;
}

export interface Benchmark {
  format: 'rlx-benchmark';
  version: 1;
  rlx: string;
  wllama: string | null;
  date: string;
  /** What the browser calls itself. */
  system: string;
  cores: number;
  /** Whether the page may share memory with workers, which threads need. */
  isolated: boolean;
  model: { name: string; architecture: string };
  plan: Plan;
  measured: Measured[];
  missing: Missing[];
}

export const NAMES: { readonly [executor in Executor]: string } = {
  webgpu: 'WebGPU',
  threads: 'CPU, several threads',
  thread: 'CPU, one thread',
  'wllama-threads': 'wllama, several threads',
  'wllama-thread': 'wllama, one thread',
};
