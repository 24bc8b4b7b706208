/**
 * An instance of the wasm module, with its pending promises and its end.
 *
 * A panic, a stack overflow and a failed allocation are traps, and Rust cleans nothing up after one: its borrows
 * stay for ever. So the first exception that leaves the module stops its instance: pending promises reject,
 * later calls throw the same error, and nothing enters it again.
 *
 * Most traps have no caller who could catch them, because the browser polls Rust's futures, from microtasks and
 * callbacks of promises. But every entry goes through an export, so the exports are guarded.
 */

import { RlxError, stopped } from './error.js';
import { Pending } from './pending.js';
import type { Around } from './rlx_wasm.js';
import type { WasmEngine } from './wasm.js';

/** The glue's class. */
export type BoundEngine = Omit<WasmEngine, 'ended' | 'memoryBytes'> & { free(): void };

/** The error that ends work in an instance. */
interface Ends {
  cancel(): void;
  dispose(): void;
}

/** An object of the glue, with guarded calls. */
export interface Bound<T> extends Ends {
  call<R>(work: (it: T) => R): R;
  /** As `call`, for what answers with a promise; a trap in the meantime rejects it. */
  wait<R>(work: (it: T) => Promise<R>): Promise<R>;
}

export class Instance implements Around {
  /** Resolves to why it stopped, if it ever does. */
  readonly ended: Promise<RlxError>;
  /** The module's memory, once it is there. */
  memory: WebAssembly.Memory | undefined;
  readonly #pending = new Pending();
  #end: (reason: RlxError) => void = () => {};
  #stopped: RlxError | undefined;
  #panic = '';
  /** How many of our own calls are under way: zero when the browser comes in by itself. */
  #calls = 0;

  /** `onStop` is called once, when the instance has stopped. */
  constructor(private readonly onStop: () => void = () => {}) {
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  /** Why it stopped, if it did. */
  get stopped(): RlxError | undefined {
    return this.#stopped;
  }

  /** Stops the instance: nothing enters the module again, and pending promises reject. */
  stop(thrown: unknown): void {
    if (this.#stopped) return;
    this.#stopped = stopped(thrown, this.#panic);
    this.#pending.end(this.#stopped);
    this.#end(this.#stopped);
    this.onStop();
  }

  readonly panicked = (message: string): void => {
    this.#panic ||= message;
  };

  readonly guard = (exports: WebAssembly.Exports): WebAssembly.Exports => {
    const entries = Object.entries(exports).map(([name, value]) =>
      [name, typeof value === 'function' ? this.#guarded(value as Export) : value] as const);
    return Object.fromEntries(entries);
  };

  #guarded(enter: Export): Export {
    return (...args) => {
      if (!this.#stopped) {
        try {
          return enter(...args);
        } catch (thrown) {
          this.stop(thrown);
        }
      }
      if (this.#calls > 0) throw this.#stopped;
      // The browser came in: from here an exception goes to nobody, and ends a process of Node. The glue looks
      // into an answer for an error, which an empty array has not.
      return [];
    };
  }

  /** Calls into the module, through the glue. */
  call<T>(work: () => T): T {
    if (this.#stopped) throw this.#stopped;
    this.#calls += 1;
    try {
      return work();
    } finally {
      this.#calls -= 1;
    }
  }

  /** As `call`, for what answers with a promise; a trap in the meantime rejects it. */
  async wait<T>(work: () => Promise<T>): Promise<T> {
    return this.#pending.add(this.call(work));
  }

  /** An object of the glue in this instance. `onLeave` is called when it leaves it as another may find it. */
  bind<T extends Ends & { free(): void }>(make: () => T, onLeave: () => void, disposed: string): Bound<T> {
    const leave = () => {
      if (!this.#stopped) onLeave();
    };
    let bound: T | undefined;
    try {
      bound = this.call(make);
    } catch (error) {
      leave();
      throw error;
    }
    // Its number may be reused once it is freed.
    const live = (): T => {
      if (!bound) throw new RlxError('disposed', disposed);
      return bound;
    };
    /** Freeing an object of a stopped instance does nothing. */
    const end = (work: () => void) => {
      try {
        this.call(work);
      } catch (error) {
        if (error !== this.#stopped) throw error;
      }
    };
    return {
      call: (work) => this.call(() => work(live())),
      wait: (work) => this.wait(() => work(live())),
      cancel: () => end(() => bound?.cancel()),
      dispose: () => {
        const last = bound;
        bound = undefined;
        if (!last) return;
        end(() => {
          last.dispose();
          last.free();
        });
        leave();
      },
    };
  }

  /** An engine in this instance. */
  engine(make: () => BoundEngine, onLeave: () => void): WasmEngine {
    const { call, wait, ...ends } = this.bind(make, onLeave, 'the engine was disposed');
    return {
      ended: this.ended,
      memoryBytes: () => this.memory?.buffer.byteLength ?? 0,
      tune: (progress) => wait((e) => e.tune(progress)),
      text: (name, at, bytes) => call((e) => e.text(name, at, bytes)),
      index: (at, bytes) => call((e) => e.index(at, bytes)),
      pushHeader: (shard, name, fileBytes, chunk) => call((e) => e.pushHeader(shard, name, fileBytes, chunk)),
      open: () => wait((e) => e.open()),
      estimate: () => wait((e) => e.estimate()),
      timed: () => call((e) => e.timed()),
      excerpt: () => call((e) => e.excerpt()),
      trial: (steps) => wait((e) => e.trial(steps)),
      placements: (shard) => call((e) => e.placements(shard)),
      put: (shard, fileOffset, bytes) => call((e) => e.put(shard, fileOffset, bytes)),
      checks: () => call((e) => e.checks()),
      finishLoad: () => wait((e) => e.finishLoad()),
      found: () => call((e) => e.found()),
      tokenize: (text, special) => call((e) => e.tokenize(text, special)),
      tokenizeMessages: (requestJson) => call((e) => e.tokenizeMessages(requestJson)),
      template: (tools) => call((e) => e.template(tools)),
      detokenize: (ids) => call((e) => e.detokenize(ids)),
      cached: () => call((e) => e.cached()),
      restore: (tokens) => wait((e) => e.restore(tokens)),
      start: (requestJson, constraint) => call((e) => e.start(requestJson, constraint)),
      vocabulary: () => call((e) => e.vocabulary()),
      nextEvent: () => wait((e) => e.nextEvent()),
      info: () => call((e) => e.info()),
      ...ends,
    };
  }
}

type Export = (...args: unknown[]) => unknown;
