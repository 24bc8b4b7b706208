/** Whose turn it is to download a file: one load's at a time, in all tabs. If its page ends, it is the next one's. */

import { FOLDER } from './store.js';

export class Turn {
  /** Whether it is this load's. Without locks every load has a turn of its own. */
  mine = false;
  #waits = false;
  #release = () => {};
  readonly #abort = new AbortController();
  readonly #locks = (globalThis.navigator as { locks?: LockManager } | undefined)?.locks;

  constructor(private readonly key: string) {}

  /** Takes the turn if nobody has it. */
  async take(): Promise<void> {
    if (this.#locks) await this.#request(this.#locks, { ifAvailable: true });
    else this.mine = true;
  }

  /** Waits for the turn; `mine` says when it has come. */
  wait(): void {
    if (!this.#locks || this.#waits) return;
    this.#waits = true;
    if (!this.#abort.signal.aborted) void this.#request(this.#locks, { signal: this.#abort.signal });
  }

  leave(): void {
    this.mine = false;
    this.#abort.abort();
    this.#release();
  }

  #request(locks: LockManager, options: LockOptions): Promise<void> {
    return new Promise((asked) => {
      const hold = (lock: Lock | null) => {
        this.mine = lock !== null && !this.#abort.signal.aborted;
        asked();
        return this.mine ? new Promise<void>((release) => (this.#release = release)) : undefined;
      };
      locks.request(`${FOLDER}/${this.key}/load`, options, hold).catch(() => {
        this.mine = !this.#abort.signal.aborted; // locks are denied here: as if there were none
        asked();
      });
    });
  }
}
