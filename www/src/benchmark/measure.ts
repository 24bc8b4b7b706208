/** Measures a model on every executor that is there, in turns where all of them have room at the same time. */

import { Engine } from 'rlx-wasm';
import { version } from 'rlx-wasm/package.json';
import { failureOf } from '../state/engine.js';
import type { Source } from '../state/engine.js';
import { readRate } from './bandwidth.js';
import { candidates } from './engines.js';
import type { Candidate, Prompt, Running } from './engines.js';
import { WLLAMA } from './peer.js';
import { NAMES } from './types.js';
import type { Bandwidth, Benchmark, Measured, Missing, Plan } from './types.js';

/** Lengths of prompts, and of answers. */
const PROMPTS = [128, 512];
const TOKENS = 64;
const ROUNDS = 3;
/** Executors are loaded side by side where they take no more than so many bytes together: else one by one. */
const SIDE_BY_SIDE = 1e9;
/** Prompts begin at different tokens, so that no engine goes on from what it has computed. */
const TEXT =
  'A computer reads the weights of a model once for each token that it writes. How fast it writes is therefore a ' +
  'question of memory more than of arithmetic, while a prompt is read many tokens at a time and asks for both.\n';

export interface Told {
  /** 0 to 1. */
  done: number;
  what: string;
}

interface Request {
  peers: boolean;
  signal: AbortSignal;
  tell: (told: Told) => void;
}

/** Rejects with what `signal` was aborted with, or with what is wrong with the model itself. */
export async function measure(source: Source, { peers, signal, tell }: Request): Promise<Benchmark> {
  tell({ done: 0, what: 'Reading the model’s header' });
  const { there, missing, context: most, bytes } = await candidates(source, peers, signal);
  const prompts = PROMPTS.filter((each) => each + TOKENS <= most);
  const first = prompts[0] ?? Math.max(1, Math.floor(most / 2));
  const plan: Plan = {
    prompts: prompts.length > 0 ? prompts : [first],
    tokens: Math.min(TOKENS, most - first),
    rounds: ROUNDS,
    context: Math.min(most, Math.max(first, ...prompts) + 2 * TOKENS),
    in_turns: bytes * there.length <= SIDE_BY_SIDE,
  };
  const measured: Measured[] = [];
  const work = new Work(plan, there.length, signal, tell);
  for (const group of plan.in_turns ? [there] : there.map((each) => [each])) {
    const results = await work.group(group);
    for (const each of results) 'why' in each ? missing.push(each) : measured.push(each);
  }
  tell({ done: 1, what: 'Done' });
  return {
    format: 'rlx-benchmark',
    version: 1,
    rlx: version,
    wllama: peers ? WLLAMA : null,
    date: new Date().toISOString(),
    system: navigator.userAgent,
    cores: navigator.hardwareConcurrency,
    isolated: crossOriginIsolated,
    model: work.model ?? { name: source.name, architecture: '' },
    plan,
    measured,
    missing,
  };
}

class Work {
  model: Benchmark['model'] | undefined;
  #prompts: Prompt[] | undefined;
  #done = 0;
  /** Loads, warming up, rounds and memory of each executor. */
  readonly #steps: number;

  constructor(
    private readonly plan: Plan,
    count: number,
    private readonly signal: AbortSignal,
    private readonly tell: (told: Told) => void,
  ) {
    this.#steps = count * (2 + plan.rounds);
  }

  /** Loads some executors, lets them take turns, and frees them. */
  async group(group: readonly Candidate[]): Promise<(Measured | Missing)[]> {
    const missing: Missing[] = [];
    const loaded: { running: Running; measured: Measured }[] = [];
    const fail = (executor: Missing['executor'], error: unknown) => {
      this.signal.throwIfAborted();
      const { what, hint } = failureOf(error);
      missing.push({ executor, why: [what, hint].filter(Boolean).join('. ') });
    };
    try {
      for (const { executor, load } of group) {
        this.#say(`Loading: ${NAMES[executor]}`);
        try {
          const begun = performance.now();
          const running = await load(this.plan.context, this.signal);
          const ms = performance.now() - begun;
          loaded.push({ running, measured: this.#begin(running, ms) });
          await this.#prepare(running);
        } catch (error) {
          fail(executor, error);
          this.#done += 2 + this.plan.rounds;
          continue;
        }
        this.#done++;
      }
      for (let round = 0; round < this.plan.rounds; round++) {
        // Every other round the other way around: what gets warm or slow meets all alike.
        for (const each of round % 2 === 0 ? loaded : [...loaded].reverse()) {
          this.#say(`Measuring, round ${round + 1} of ${this.plan.rounds}`);
          await this.#round(each, round).catch((error: unknown) => fail(each.running.executor, error));
          this.#done++;
        }
      }
      for (const { running, measured } of loaded) measured.memory_bytes = await running.memory().catch(() => null);
    } finally {
      await Promise.all(loaded.map(({ running }) => running.dispose()));
    }
    const whole = loaded.filter(({ running: { executor } }) => !missing.some((each) => each.executor === executor));
    this.#say('Measuring memory');
    const results: (Measured | Missing)[] = [...missing];
    for (const { measured } of whole) {
      measured.bandwidth = await this.#bandwidth(measured);
      results.push(measured);
      this.#done++;
    }
    return results;
  }

  #say(what: string): void {
    this.signal.throwIfAborted();
    this.tell({ done: Math.min(this.#done / this.#steps, 1), what });
  }

  #begin({ executor, adapter, threads, weightBytes: weight_bytes }: Running, load_ms: number): Measured {
    return { executor, adapter, threads, load_ms, turns: [], memory_bytes: null, weight_bytes, bandwidth: null };
  }

  /** Prompts, by the first engine's tokenizer; then a short turn, so that kernels are compiled and memory is touched. */
  async #prepare(running: Running): Promise<void> {
    if (!this.#prompts && running.own) {
      this.model = running.own.model;
      const ids = await running.own.tokenize(TEXT);
      const { prompts, rounds } = this.plan;
      this.#prompts = [];
      for (let at = 0; at <= rounds * prompts.length; at++) {
        const length = prompts[at % prompts.length]!;
        const own = Array.from({ length }, (_, i) => ids[(i + at) % ids.length]!);
        this.#prompts.push({ ids: own, text: await running.own.detokenize(own) });
      }
    }
    const last = this.#prompts!.at(-1)!;
    await running.turn(last, Math.min(4, this.plan.tokens), this.signal);
  }

  async #round({ running, measured }: { running: Running; measured: Measured }, round: number): Promise<void> {
    const { prompts, tokens } = this.plan;
    for (const [i, asked] of prompts.entries()) {
      const prompt = this.#prompts![round * prompts.length + i]!;
      // An answer is written behind the first prompt alone: behind the others its time says little more.
      const turn = await running.turn(prompt, i === 0 ? tokens : 1, this.signal);
      measured.turns.push({ asked, ...turn });
    }
  }

  /** Of what a model of ours ran on; wllama ran on the same. */
  async #bandwidth({ executor, threads, weight_bytes: weights }: Measured): Promise<Bandwidth | null> {
    try {
      if (executor === 'webgpu') {
        const { bytesPerSecond } = await Engine.copyRate({ signal: this.signal });
        return { bytes_per_s: bytesPerSecond, how: 'gpu copies, reads and writes counted', threads: 1 };
      }
      return weights && threads ? await readRate(weights, threads, this.signal) : null;
    } catch {
      this.signal.throwIfAborted();
      return null;
    }
  }
}
