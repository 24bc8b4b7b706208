/**
 * Copies of files in the store, as a reader has them: one that is complete, and one that a load writes.
 *
 * A file is downloaded by one load at a time. Its pieces are read by other loads of the same file as they appear;
 * if it ends before the file does, in whatever way, the next one goes on behind its last piece.
 */

import { RlxError } from './error.js';
import { pieceName, versionIn } from './records.js';
import type { Record, Records } from './records.js';
import { sleep } from './retry.js';
import type { Copy } from './shard.js';
import type { Version } from './source.js';
import { itemName } from './store.js';
import type { StoreWriter } from './store.js';
import type { Turn } from './turn.js';

/** A piece is this part of its file, so that a page that ends loses no more, within bounds. */
const PIECES = 64;
const LEAST_PIECE = 1 << 20;
const LARGEST_PIECE = 16 << 20;
/** A piece of a slow download is closed after so long, for the loads that wait for it. */
const PIECE_MS = 10_000;
/** How often a load looks for another one's next piece, and how long in vain before it downloads for itself. */
const LOOK_MS = 100;
const FOLLOW_MS = 30_000;

/** A complete file. */
export class WholeCopy implements Copy {
  readonly whole = true;
  readonly version: Version;

  constructor(private readonly records: Records, private readonly key: string, private readonly record: Record, private readonly blob: Blob) {
    this.version = versionIn(record);
  }

  get sha256(): string | undefined {
    return this.record.sha256;
  }

  async read(at: number): Promise<Blob> {
    return this.blob.slice(at);
  }

  async publish(sha256?: string): Promise<void> {
    if (sha256 !== undefined) await this.records.put(this.key, { ...this.record, sha256 }, 'whole').catch(() => {});
  }

  async close(wrong: boolean): Promise<void> {
    if (wrong) await this.records.remove(this.key, 'whole').catch(() => {});
  }

  // Read from the server, if the bytes were removed meanwhile, it is not kept again.
  async begin(): Promise<void> {}
  async write(): Promise<void> {}
  async flush(): Promise<void> {}
}

/** What a download needs of the cache. */
export interface Keeper {
  records: Records;
  /** Whether there is room for so many bytes more; makes some, if it may. It says so if there is none. */
  room(bytes: number): Promise<boolean>;
  /** Notes that so many of those bytes are stored, or will not be. */
  settle(bytes: number): void;
  tell(cause: unknown): void;
}

/** A file that this load or another one is downloading. */
export class Download implements Copy {
  readonly whole = false;
  readonly sha256 = undefined;
  #record: Record | undefined;
  #pieces: Blob[] = [];
  /** Bytes of all pieces. */
  #size = 0;
  #writing = false;
  #out: StoreWriter | undefined;
  #written = 0;
  #since = 0;
  #promised = 0;
  /** What was begun last: a flush and a write may come at once. */
  #busy: Promise<unknown> = Promise.resolve();

  /** `validator` is the server's version, if it was asked. A part of that version is continued. */
  constructor(
    private readonly keeper: Keeper,
    private readonly key: string,
    private readonly url: string,
    private readonly turn: Turn,
    private readonly validator: string | undefined,
    private readonly signal?: AbortSignal,
  ) {}

  get version(): Version | undefined {
    return this.#record && versionIn(this.#record);
  }

  async read(at: number): Promise<Blob | undefined> {
    if (this.validator === undefined) return undefined;
    if (!this.turn.mine) this.turn.wait();
    for (let waited = 0; waited < FOLLOW_MS; waited += LOOK_MS) {
      const mine = this.turn.mine; // before looking: what comes later is this load's
      if (await this.#look()) waited = 0;
      if (this.#size > at) return new Blob(this.#pieces).slice(at);
      if (mine) {
        await this.#learnEnd();
        return undefined;
      }
      await sleep(LOOK_MS, this.signal);
    }
    this.turn.leave();
    return undefined;
  }

  /** Looks for more of the file; whether there is. */
  async #look(): Promise<boolean> {
    const { records } = this.keeper;
    for (const kind of ['part', 'whole'] as const) {
      if (this.#record) break;
      const record = await records.get(this.key, this.url, kind);
      if (record?.item && record.validator === this.validator) this.#record = record;
    }
    const before = this.#size;
    while (this.#record) {
      const piece = await records.piece(this.#record.item!, this.#pieces.length);
      if (!piece) break;
      this.#pieces.push(piece);
      this.#size += piece.size;
    }
    return this.#size > before;
  }

  /** The load that had the turn may have completed the file. */
  async #learnEnd(): Promise<void> {
    const whole = await this.keeper.records.get(this.key, this.url, 'whole');
    if (whole?.item && whole.item === this.#record?.item) {
      this.#record = whole;
      this.turn.leave();
    }
  }

  async begin(version: Version, at: number): Promise<void> {
    const { records } = this.keeper;
    const { validator, bytes, claimed } = version;
    const all = bytes ?? claimed;
    // Without them it could not be known again.
    if (!this.turn.mine || validator === undefined || all === undefined) return this.turn.leave();
    const goesOn = at > 0 && this.#record !== undefined && at === this.#size;
    if (at > 0 && !goesOn) return this.turn.leave();
    try {
      if (!await this.keeper.room(all - at)) {
        if (goesOn) await records.remove(this.key, 'part');
        return this.turn.leave();
      }
      this.#promised = all - at;
      const item = goesOn ? this.#record!.item : itemName(this.key);
      if (!goesOn) this.#pieces = [];
      this.#size = at;
      this.#record = { url: this.url, ...version, validator, item, used: Date.now() };
      await records.put(this.key, this.#record, 'part');
      this.#writing = true;
    } catch (cause) {
      await this.#giveUp(cause);
    }
  }

  write(chunk: Uint8Array): Promise<void> {
    return this.#next(async () => {
      if (!this.#out) {
        this.#out = await this.keeper.records.store.write(pieceName(this.#record!.item!, this.#pieces.length));
        this.#since = Date.now();
      }
      await this.#out.write(chunk);
      this.#written += chunk.byteLength;
      const { bytes, claimed } = this.#record!;
      const most = Math.min(Math.max((bytes ?? claimed!) / PIECES, LEAST_PIECE), LARGEST_PIECE);
      if (this.#written >= most || Date.now() - this.#since > PIECE_MS) await this.#closePiece();
    });
  }

  flush(): Promise<void> {
    return this.#next(() => this.#closePiece());
  }

  async publish(sha256?: string): Promise<void> {
    // An earlier load may have stored every piece and ended before it wrote the record of a complete file. This load
    // then had nothing to write, and the record is still missing.
    if (this.turn.mine && !this.#writing && this.#record?.item) {
      await this.#learnEnd().catch(() => {});
      this.#writing = this.turn.mine;
    }
    await this.#next(async () => {
      await this.#closePiece();
      const { records } = this.keeper;
      const { item, bytes, claimed, ...record } = this.#record!;
      if (this.#size < (bytes ?? claimed!) || (await records.pieces(item!)).size !== this.#size) {
        throw new RlxError('io', 'incomplete', { at: this.url });
      }
      await records.put(this.key, { ...record, item, bytes: this.#size, ...(sha256 !== undefined && { sha256 }) }, 'whole');
      this.#writing = false;
    });
    this.#leave();
  }

  async close(wrong: boolean): Promise<void> {
    if (wrong && this.turn.mine) {
      await this.#busy;
      this.#writing = false;
      await this.#out?.abort().catch(() => {});
      await this.keeper.records.remove(this.key, 'part').catch(() => {});
    } else {
      await this.flush();
    }
    this.#writing = false;
    this.#leave();
  }

  /** Does one thing of the writing after the other. A fault of the storage ends it. */
  #next(work: () => Promise<void>): Promise<void> {
    const done = this.#busy.then(async () => {
      if (!this.#writing) return;
      try {
        await work();
      } catch (cause) {
        await this.#giveUp(cause);
      }
    });
    this.#busy = done;
    return done;
  }

  async #closePiece(): Promise<void> {
    if (!this.#out) return;
    const out = this.#out;
    this.#out = undefined;
    await out.close();
    this.#pieces.push(new Blob()); // it counts: the load that writes a piece does not read it
    this.#size += this.#written;
    this.#settle(this.#written);
    this.#written = 0;
  }

  async #giveUp(cause: unknown): Promise<void> {
    const { records, tell } = this.keeper;
    this.#writing = false;
    await this.#out?.abort().catch(() => {});
    this.#out = undefined;
    const item = this.#record?.item;
    if (item) await records.removePieces(item).catch(() => {});
    await records.store.remove(`${this.key}.part.json`).catch(() => {});
    this.#leave();
    tell(cause);
  }

  #settle(bytes: number): void {
    const n = Math.min(bytes, this.#promised);
    this.#promised -= n;
    this.keeper.settle(n);
  }

  #leave(): void {
    this.#settle(Infinity);
    this.turn.leave();
  }
}
