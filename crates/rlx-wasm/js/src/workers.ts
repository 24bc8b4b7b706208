/** Web workers that share the memory of the threaded module and work for its engines. */

/** What a worker is sent first: what it makes its own instance of. */
export interface Shared {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
}

/** They live as long as the page; idle ones sleep. */
export class Workers {
  readonly #started: Promise<Worker | undefined>[] = [];

  constructor(private readonly shared: Shared) {}

  /** Starts what is missing of `count`; answers how many of them work. */
  async atLeast(count: number): Promise<number> {
    while (this.#started.length < count) this.#started.push(this.#start());
    const workers = await Promise.all(this.#started.slice(0, count));
    return workers.filter((worker) => worker !== undefined).length;
  }

  /** Undefined when the page may not have it: its engines then have one thread less. */
  #start(): Promise<Worker | undefined> {
    return new Promise((resolve) => {
      try {
        // Bundlers know this form and bring the file along.
        const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module', name: 'rlx-cpu' });
        worker.onmessage = () => resolve(worker);
        worker.onerror = () => resolve(undefined);
        worker.postMessage(this.shared);
      } catch {
        resolve(undefined);
      }
    });
  }
}
