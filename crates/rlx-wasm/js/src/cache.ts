/**
 * A cache of shards for the next visit, in the browser's storage.
 *
 * A kept shard is used if the server says that its version is the same, or if no server answers. One that is not
 * complete is continued if the server says that its version is the same. That the server has no such file is kept
 * too, as a record without bytes: a folder may lack files, and is whole offline as well.
 */

import { Download, WholeCopy } from './copy.js';
import type { Keeper } from './copy.js';
import { RlxError, throwIfAborted } from './error.js';
import { list, modelOf, remove } from './models.js';
import { keyOf, Records, unsigned } from './records.js';
import type { Record } from './records.js';
import { PATIENCE } from './retry.js';
import { ShardReader } from './shard.js';
import { ask, httpError, isMissing, isPage, missingError, UrlSource, validatorOf } from './source.js';
import type { Source } from './source.js';
import type { Store } from './store.js';
import { Turn } from './turn.js';
import type { Notice } from './types.js';

export { openStore } from './store.js';

type Notify = (notice: Notice) => void;

/** What a cache may do. */
export interface CacheOptions {
  /** Whether models that were not used for longest may go if there is no room. */
  makeRoom?: boolean | undefined;
  patience?: typeof PATIENCE;
  /** Tells the browser's room for this origin, as far as the browser says it; Node has none to tell. */
  estimate?: () => Promise<StorageEstimate>;
}

const ESTIMATE = async (): Promise<StorageEstimate> => await globalThis.navigator?.storage?.estimate?.() ?? {};

export class ShardCache implements Keeper {
  readonly records: Records;
  /** Bytes that downloads of this load will still store. */
  #promised = 0;
  /** Keys of the files that this load reads. */
  readonly #inUse = new Set<string>();

  constructor(
    store: Store,
    private readonly notify: Notify = () => {},
    private readonly fetcher: typeof fetch = (...args) => fetch(...args),
    private readonly options: CacheOptions = {},
  ) {
    this.records = new Records(store);
  }

  /** A reader of `url`: from the cache if the version is the server's, else from the server, into the cache. */
  async reader(url: string, signal?: AbortSignal, sha256?: string): Promise<ShardReader> {
    const address = unsigned(url);
    const key = await keyOf(address);
    this.#inUse.add(key);
    const { patience = PATIENCE } = this.options;
    const network = this.#remembering(new UrlSource(url, 'no-store', this.fetcher), key, address);
    const read = (copy: Download | WholeCopy) => new ShardReader(network, signal, { copy, sha256, patience });

    const whole = await this.#whole(key, address);
    // A copy of which the hash is known to be another is not what is wanted.
    const wrong = sha256 !== undefined && whole?.record.sha256 !== undefined && whole.record.sha256 !== sha256;
    let answer: Answer | undefined;
    if (whole && !wrong) {
      answer = await this.#revalidate(url, signal);
      if (answer === 'offline') this.#tellOffline();
      if (answer === 'offline' || answer.validator === whole.record.validator) {
        await this.records.use(key, whole.record);
        return read(new WholeCopy(this.records, key, whole.record, whole.blob));
      }
    }
    const turn = new Turn(key);
    await turn.take();
    if (!answer && !wrong && (!turn.mine || await this.#get(key, address, 'part'))) {
      // If it fails, so will the request for the file.
      answer = await this.#revalidate(url, signal).catch(() => 'offline' as const);
    }
    if (signal?.aborted) turn.leave();
    throwIfAborted(signal);
    const version = answer && answer !== 'offline' ? answer.validator : undefined;
    return read(new Download(this, key, address, turn, version, signal));
  }

  /** Removes what no load will use. */
  sweep(now?: number): Promise<void> {
    return this.records.sweep(now);
  }

  async room(bytes: number): Promise<boolean> {
    const { makeRoom = false, estimate = ESTIMATE } = this.options;
    const all = bytes + this.#promised;
    const fits = async (more: number) => {
      const { quota, usage = 0 } = await estimate().catch(() => ({}) as StorageEstimate);
      if (quota !== undefined && more > quota - usage) return false;
      // Browsers tell pages of more room than there is. Where something can be done about it, it is tried.
      return !makeRoom || (await this.records.store.holds?.(more) ?? true);
    };
    let room = await fits(all);
    if (!room && makeRoom) {
      const ours = new Set((await this.records.all()).filter(({ key }) => this.#inUse.has(key)).map(({ record }) => modelOf(record.url)));
      const others = (await list(this.records)).filter(({ id }) => !ours.has(id));
      // None goes in vain.
      if (await fits(all - others.reduce((sum, model) => sum + model.bytes, 0))) {
        for (const { id } of others.reverse()) {
          await remove(this.records, id);
          room = await fits(all);
          if (room) break;
        }
      }
    }
    if (!room) {
      this.#tellFull();
      return false;
    }
    this.#promised += bytes;
    return true;
  }

  settle(bytes: number): void {
    this.#promised -= bytes;
  }

  /** Says why nothing is kept. */
  readonly tell = (cause: unknown): void => {
    if (cause instanceof Error && cause.name === 'QuotaExceededError') this.#tellFull();
    else this.notify({ code: 'cache_unavailable', message: 'The browser does not let this page keep the model: it will be downloaded again next time.' });
  };

  #tellFull(): void {
    this.notify({ code: 'cache_full', message: 'The browser has no room to keep the model: it will be downloaded again next time. `makeRoom` or `Engine.models.delete` remove others.' });
  }

  #tellOffline(): void {
    this.notify({ code: 'offline', message: 'The server does not answer: using the copy kept from an earlier visit.' });
  }

  /** The same source, which remembers that the server has no such file, and says so if no server answers. */
  #remembering(network: Source, key: string, address: string): Source {
    const { name, kind } = network;
    const open: Source['open'] = async (signal, ...rest) => {
      try {
        return await network.open(signal, ...rest);
      } catch (error) {
        if (isMissing(error)) {
          const record: Record = { url: address, validator: '', bytes: 0, item: null, used: Date.now() };
          await this.records.put(key, record, 'whole').catch(() => {}); // offline it is an error then
        } else if (!signal?.aborted && error instanceof RlxError && error.code === 'io' && (await this.#get(key, address, 'whole'))?.item === null) {
          this.#tellOffline();
          throw missingError(name, 'the server had no such file at an earlier visit, and does not answer now');
        }
        throw error;
      }
    };
    return { name, kind, open };
  }

  /** The server's version, or `offline` if the server cannot be reached or fails (5xx), or something answers for it. */
  async #revalidate(url: string, signal?: AbortSignal, method: 'HEAD' | 'GET' = 'HEAD'): Promise<Answer> {
    let response: Response;
    try {
      response = await ask(this.fetcher, url, { method, cache: 'no-store' }, signal, this.options.patience?.stallMs);
    } catch {
      throwIfAborted(signal);
      return 'offline';
    }
    // Do not keep an unread body: another shard may be waiting for the connection.
    await response.body?.cancel().catch(() => {});
    const { ok, status, headers } = response;
    if (ok) return isPage(response) ? 'offline' : { validator: validatorOf(headers) };
    if ((status >= 500 && status !== 501) || status === 429 || status === 408) return 'offline';
    if (method === 'GET' || status === 404 || status === 410) throw httpError(response, url);
    return this.#revalidate(url, signal, 'GET'); // the server does not answer HEAD
  }

  async #whole(key: string, address: string): Promise<{ record: Record; blob: Blob } | undefined> {
    const record = await this.#get(key, address, 'whole');
    if (!record?.item) return undefined;
    const blob = await this.records.pieces(record.item).catch(() => undefined);
    return blob && blob.size === record.bytes ? { record, blob } : undefined;
  }

  /** A record; storage that cannot be read holds nothing. */
  #get(key: string, address: string, kind: 'whole' | 'part'): Promise<Record | undefined> {
    return this.records.get(key, address, kind).catch(() => undefined);
  }
}

type Answer = 'offline' | { validator: string | undefined };
