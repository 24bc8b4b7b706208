/** Web workers that share the memory of the threaded module and work for its engines. */

/** The first message to a worker: the parts of its own instance. */
export interface Shared {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
}

/** A worker's messages: that it is ready, or that a trap has ended it. */
export type FromWorker = { ready: true } | { trap: string };

/** The workers of an instance. They live as long as it does, and sleep while idle. */
export class Workers {
  readonly #started: Promise<boolean>[] = [];
  readonly #ends: (() => void)[] = [];

  /** `onTrap` is called with the first trap of a worker: their memory must not be used any more. */
  constructor(private readonly shared: Shared, private readonly onTrap: (trap: Error) => void) {}

  /** Starts workers until there are `count`; resolves to how many are ready. */
  async atLeast(count: number): Promise<number> {
    while (this.#started.length < count) this.#started.push(this.#start());
    const working = await Promise.all(this.#started.slice(0, count));
    return working.filter((works) => works).length;
  }

  /** Terminates the workers at once. */
  end(): void {
    for (const end of this.#ends.splice(0)) end();
  }

  /** Starts a worker; false if the page may not have it: its engines then have one thread less. */
  #start(): Promise<boolean> {
    return new Promise((resolve) => {
      try {
        // Bundlers know this form and include the file.
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
