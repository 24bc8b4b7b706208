/** Stand-ins for the parts that need a browser or the wasm module. */

import type { Store } from '../src/cache.js';
import type { WasmEngine, WasmEvent } from '../src/wasm.js';

export const bytesOf = (n: number, seed = 0): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length: n }, (_, i) => (i * 31 + (i >> 8) * 7 + seed) & 255);

/** A stream of chunks of the given length, then its end or a fault. */
export function streamOf(bytes: Uint8Array, chunkBytes: number, fail?: Error): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream<Uint8Array>({
    pull(out) {
      if (at < bytes.byteLength) {
        out.enqueue(bytes.slice(at, at + chunkBytes));
        at += chunkBytes;
      } else if (fail) {
        out.error(fail);
      } else {
        out.close();
      }
    },
  }, { highWaterMark: 0 });
}

/** A server with one file, and what it was asked. */
export class FakeServer {
  requests: string[] = [];
  etag = '"v1"';
  ranges = true;
  head = 200;
  online = true;
  /** Bytes after which a body breaks off. */
  stopAfter: number | undefined;

  constructor(public body: Uint8Array<ArrayBuffer>) {}

  fetch = (async (_url: unknown, init: RequestInit = {}) => {
    const range = (init.headers as Record<string, string> | undefined)?.['range'];
    this.requests.push([init.method ?? 'GET', range].filter(Boolean).join(' '));
    if (!this.online) throw new TypeError('fetch failed');
    const headers: Record<string, string> = {
      etag: this.etag,
      'content-length': String(this.body.byteLength),
    };
    if (init.method === 'HEAD') return new Response(null, { status: this.head, headers });
    const from = this.ranges && range ? Number(/\d+/.exec(range)![0]) : 0;
    const rest = this.body.subarray(from, this.stopAfter);
    const fault = this.stopAfter === undefined ? undefined : new TypeError('terminated');
    if (from > 0) headers['content-range'] = `bytes ${from}-${this.body.byteLength - 1}/${this.body.byteLength}`;
    return new Response(streamOf(rest, 1000, fault), { status: from > 0 ? 206 : 200, headers });
  }) as typeof fetch;
}

/** A browser's storage in memory, with a quota. */
export class FakeStore implements Store {
  items = new Map<string, Blob>();
  quota = Infinity;

  async read(name: string) {
    return this.items.get(name);
  }

  async write(name: string) {
    const parts: Uint8Array<ArrayBuffer>[] = [];
    return {
      write: async (chunk: Uint8Array) => {
        parts.push(chunk.slice() as Uint8Array<ArrayBuffer>);
        const used = parts.reduce((sum, part) => sum + part.byteLength, 0);
        if (used > this.quota) throw new DOMException('full', 'QuotaExceededError');
      },
      close: async () => {
        this.items.set(name, new Blob(parts));
      },
      abort: async () => {},
    };
  }

  async remove(name: string) {
    this.items.delete(name);
  }

  async names() {
    return [...this.items.keys()];
  }
}

/** An engine that answers with given events and keeps what it was told. */
export class FakeEngine implements WasmEngine {
  log: string[] = [];
  started: unknown[] = [];
  events: WasmEvent[] = [];
  #queue: WasmEvent[] = [];
  #cancelled = false;
  /** Called before each event; lets a test act in the middle of an answer. */
  before: (n: number) => Promise<void> | void = () => {};
  #n = 0;

  constructor(
    public headerBytes: number[] = [],
    public tables: Float64Array[] = [],
  ) {}

  #headers: number[] = [];
  pushHeader(shard: number, _name: string, _bytes: number, chunk: Uint8Array) {
    this.#headers[shard] = (this.#headers[shard] ?? 0) + chunk.byteLength;
    this.log.push(`header ${shard}`);
    return this.#headers[shard]! >= this.headerBytes[shard]!;
  }

  async tune() {
    return JSON.stringify({ key: 'a fake; ; rlx 0.0.0', tuning: 'parts=64' });
  }

  async open() {
    this.log.push('open');
  }

  placements(shard: number) {
    return this.tables[shard]!;
  }

  puts: { shard: number; at: number; bytes: Uint8Array }[] = [];
  put(shard: number, at: number, bytes: Uint8Array) {
    this.puts.push({ shard, at, bytes: bytes.slice() });
  }

  checks() {
    return false;
  }
  found() {
    return undefined;
  }
  async finishLoad() {
    this.log.push('finish');
  }

  cached() {
    return new Uint32Array();
  }

  async restore(tokens: Uint32Array) {
    this.log.push(`restore ${tokens.join()}`);
  }

  start(request: string) {
    this.started.push(JSON.parse(request));
    this.#queue = [...this.events];
    this.#cancelled = false;
    this.#n = 0;
  }

  async nextEvent() {
    await this.before(this.#n++);
    await new Promise((resolve) => setTimeout(resolve, 0));
    const done: WasmEvent = { type: 'done', reason: 'cancelled', promptTokens: 1, completionTokens: 1 };
    const event = this.#cancelled ? done : this.#queue.shift()!;
    return JSON.stringify(event);
  }

  cancel() {
    this.log.push('cancel');
    this.#cancelled = true;
  }

  info() {
    return JSON.stringify({ model: { name: 'fake' } });
  }

  dispose() {
    this.log.push('dispose');
  }
}
