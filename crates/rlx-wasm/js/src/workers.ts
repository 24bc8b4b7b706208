/** Web workers that share the memory of the threaded module and work for its engines. */

/** What a worker is sent first: what it makes its own instance of. */
export interface Shared {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
}

/** What a worker says: that it works, and that a trap has ended it. */
export type FromWorker = { ready: true } | { trap: string };

/** They live as long as the instance; idle ones sleep. */
export class Workers {
  readonly #started: Promise<boolean>[] = [];
  readonly #ends: (() => void)[] = [];

  /** `onTrap` is called with the first trap of a worker: their memory is not to be used any more. */
  constructor(private readonly shared: Shared, private readonly onTrap: (trap: Error) => void) {}

  /** Starts what is missing of `count`; answers how many of them work. */
  async atLeast(count: number): Promise<number> {
    while (this.#started.length < count) this.#started.push(this.#start());
    const working = await Promise.all(this.#started.slice(0, count));
    return working.filter((works) => works).length;
  }

  /** Ends them in whatever they do. */
  end(): void {
    for (const end of this.#ends.splice(0)) end();
  }

  /** False when the page may not have it: its engines then have one thread less. */
  #start(): Promise<boolean> {
    return new Promise((resolve) => {
      try {
        // Bundlers know this form and bring the file along.
        const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module', name: 'rlx-cpu' });
        worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
          if ('trap' in data) this.onTrap(new Error(data.trap));
          else resolve(true);
        };
        worker.onerror = () => resolve(false);
        this.#ends.push(() => {
          worker.terminate();
          resolve(false);
        });
        worker.postMessage(this.shared);
      } catch {
        resolve(false);
      }
    });
  }
}
