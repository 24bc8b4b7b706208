/** A network on a device: runs its calls one after another, and frees it. All classes but `Engine` share this. */

import { free, webgpuReported } from './bring.js';
import type { Running } from './bring.js';
import { cancelled, RlxError, throwIfAborted, toRlxError } from './error.js';
import { Pending } from './pending.js';
import { Queue } from './queue.js';
import type { SessionInfo } from './session_types.js';
import type { WasmSession } from './wasm_session.js';

export class Live {
  readonly #queue = new Queue();
  readonly #calls = new Pending();
  #over: RlxError | undefined;
  /** The running call. The network is freed only after it has settled. */
  #pending: Promise<unknown> = Promise.resolve();

  /** `what` is its name in errors. */
  constructor(private readonly running: Running<WasmSession>, private readonly what: 'session' | 'embedder' | 'image model' | 'transcriber' | 'segmenter' | 'image generator') {}

  /** Runs `work` when every earlier call has ended. */
  async call<T>(signal: AbortSignal | undefined, work: (wasm: WasmSession) => Promise<T>): Promise<T> {
    this.check();
    const release = await this.#queue.turn(signal);
    const { wasm, host } = this.running;
    let stop = () => {};
    const aborted = new Promise<never>((_, reject) => {
      stop = () => {
        wasm.cancel();
        reject(cancelled());
      };
    });
    signal?.addEventListener('abort', stop, { once: true });
    try {
      throwIfAborted(signal);
      const answer = work(wasm);
      this.#pending = answer.catch(() => {});
      const value = await this.#calls.add(signal ? Promise.race([answer, aborted]) : answer);
      throwIfAborted(signal);
      const error = host?.takeError();
      if (error) throw webgpuReported(error);
      return value;
    } catch (error) {
      throw this.#over ?? this.#tell(error);
    } finally {
      signal?.removeEventListener('abort', stop);
      // The next call waits only for the device, not for a caller that has cancelled.
      void this.#pending.then(release);
    }
  }

  /** Waits for what the network has no part in; it takes no turn. Rejects when the signal fires, or with the network's end. */
  async wait<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    this.check();
    throwIfAborted(signal);
    let stop = () => {};
    const aborted = new Promise<never>((_, reject) => (stop = () => reject(cancelled())));
    signal?.addEventListener('abort', stop, { once: true });
    try {
      const answer = work();
      return await this.#calls.add(signal ? Promise.race([answer, aborted]) : answer);
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  /** The page's own GPU device; null on the CPU. */
  get gpuDevice(): GPUDevice | null {
    return this.running.host?.device ?? null;
  }

  /** The buffer of an output that is kept on the device; null on the CPU. */
  bufferOf(kept: number): GPUBuffer | null {
    const { wasm, host } = this.running;
    const id = wasm.keptBuffer(kept);
    return id === undefined ? null : host!.buffer(id);
  }

  /** Frees an output that is kept on the device, when every earlier call has ended. */
  freeKept(kept: number): void {
    this.#later((wasm) => wasm.freeKept(kept));
  }

  /** Frees what is kept of an image on the device, when every earlier call has ended. */
  freeSeen(seen: number): void {
    this.#later((wasm) => wasm.freeSeen(seen));
  }

  info(): SessionInfo {
    this.check();
    return JSON.parse(this.running.wasm.info()) as SessionInfo;
  }

  check(): void {
    if (this.#over) throw this.#over;
  }

  /** Frees everything when the call that runs has settled; all calls end with code `disposed`. */
  dispose(): void {
    if (this.#over) return;
    this.#over = new RlxError('disposed', `the ${this.what} was disposed`, { hint: 'load the model again' });
    this.running.wasm.cancel();
    this.#calls.end(this.#over);
    this.#queue.close(this.#over);
    const end = () => free(this.running);
    void this.#pending.then(end, end);
  }

  #later(work: (wasm: WasmSession) => void): void {
    // A disposed network has freed everything.
    void this.call(undefined, async (wasm) => work(wasm)).catch(() => {});
  }

  #tell(thrown: unknown): RlxError {
    const error = toRlxError(thrown);
    if (error.code !== 'device_lost') return error;
    return new RlxError(error.code, error.what, { at: error.at, hint: `dispose the ${this.what} and load it again`, cause: error.cause });
  }
}
