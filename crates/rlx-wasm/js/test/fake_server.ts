/**
 * A server as browsers meet them, with one file. What it sends is what a page sees: bodies are
 * decoded, and across origins only the headers that CORS shows.
 */

import { gzipSync } from 'node:zlib';
import { streamOf } from './fakes.js';

/** What a page sees of any response across origins; the rest only where the server exposes it. */
const ALWAYS_SEEN = ['cache-control', 'content-language', 'content-length', 'content-type', 'expires', 'last-modified', 'pragma'];

const STATUS = { 404: 'Not Found', 405: 'Method Not Allowed', 410: 'Gone', 416: 'Range Not Satisfiable', 503: 'Service Unavailable' } as Record<number, string>;

/**
 * The connections that a browser opens to one server over HTTP/1.1: a request waits for a free
 * one and has it until its body has been read or cancelled.
 */
export class Connections {
  #waiting: (() => void)[] = [];

  constructor(private free = 6) {}

  /** Resolves to the function that gives the connection back. A signal ends the waiting. */
  async take(signal?: AbortSignal): Promise<() => void> {
    if (this.free > 0) this.free -= 1;
    else {
      await new Promise<void>((go, stop) => {
        this.#waiting.push(go);
        signal?.addEventListener('abort', () => {
          this.#waiting = this.#waiting.filter((other) => other !== go);
          stop(signal.reason);
        }, { once: true });
      });
    }
    let given = false;
    return () => {
      if (given) return;
      given = true;
      const next = this.#waiting.shift();
      if (next) next();
      else this.free += 1;
    };
  }
}

export class FakeServer {
  /** Every request: method and range. */
  requests: string[] = [];
  /** With its quotes, `W/` in front for a weak one; null: none is sent. */
  etag: string | null = '"v1"';
  lastModified: string | null = null;
  /** Whether ranges are answered with 206; else with the whole, as 200. */
  ranges = true;
  /** Bytes that a 206 has at most, of however many were asked for, and of what its first byte's place is a multiple. */
  rangeBytes = Infinity;
  rangeStep = 1;
  /** Status of every answer; of those to HEAD, if it is another. */
  status = 200;
  head: number | null = null;
  /** Nobody answers: there is no connection. */
  online = true;
  /** Without: the body is sent in chunks, its length unsaid. */
  length = true;
  /** Whole answers are compressed. Those to ranges are not: for them browsers ask for plain bytes. */
  gzip = false;
  /** The page is of another origin and sees these headers beside `ALWAYS_SEEN`; null: of the same origin, all. */
  exposed: string[] | null = null;
  /** How much of a body comes at once. */
  chunkBytes = 1000;
  /** Bytes of the file after which a body breaks off, or ends as if it were whole. */
  stopAfter: number | undefined;
  stopsQuietly = false;
  /** Shared by the servers that are files of one host. */
  connections: Connections | undefined;

  constructor(public body: Uint8Array<ArrayBuffer>) {}

  fetch = (async (_url: unknown, init: RequestInit = {}) => {
    const method = init.method ?? 'GET';
    const range = (init.headers as Record<string, string> | undefined)?.['range'];
    this.requests.push([method, range].filter(Boolean).join(' '));
    const signal = init.signal ?? undefined;
    signal?.throwIfAborted();
    if (!this.online) throw new TypeError('fetch failed');
    const over = await this.connections?.take(signal);
    const answer = this.#answer(method, method === 'GET' ? range : undefined);
    if (!answer.body) over?.();
    const stopped = this.stopAfter === undefined || this.stopsQuietly ? undefined : new TypeError('terminated');
    const body = answer.body && streamOf(answer.body, this.chunkBytes, { fail: stopped, over, signal });
    const { status } = answer;
    const response = new Response(body, { status, statusText: STATUS[status] ?? '', headers: this.#seen(answer.headers) });
    Object.defineProperty(response, 'type', { value: this.exposed ? 'cors' : 'basic' });
    return response;
  }) as typeof fetch;

  #answer(method: string, range: string | undefined): { status: number; headers: Record<string, string>; body?: Uint8Array } {
    const total = this.body.byteLength;
    const status = (method === 'HEAD' ? this.head : null) ?? this.status;
    if (status !== 200) return { status, headers: { 'content-length': '0' } };
    const headers: Record<string, string> = {};
    if (this.etag !== null) headers['etag'] = this.etag;
    if (this.lastModified !== null) headers['last-modified'] = this.lastModified;
    if (this.ranges && range) {
      const asked = Number(/^bytes=(\d+)-$/.exec(range)![1]);
      const from = asked - (asked % this.rangeStep);
      if (from >= total) return { status: 416, headers: { 'content-range': `bytes */${total}` } };
      const end = Math.min(total, from + this.rangeBytes);
      headers['content-range'] = `bytes ${from}-${end - 1}/${total}`;
      if (this.length) headers['content-length'] = String(end - from);
      return { status: 206, headers, body: this.body.subarray(from, Math.min(end, this.stopAfter ?? end)) };
    }
    let sent = total;
    if (this.gzip) {
      headers['content-encoding'] = 'gzip';
      // As nginx does: what is compressed on the way is the same in meaning and not in bytes.
      if (this.etag !== null && !this.etag.startsWith('W/')) headers['etag'] = `W/${this.etag}`;
      sent = gzipSync(this.body).byteLength;
    }
    if (this.length) headers['content-length'] = String(sent);
    return { status, headers, ...(method === 'HEAD' ? {} : { body: this.body.subarray(0, this.stopAfter) }) };
  }

  #seen(headers: Record<string, string>): Record<string, string> {
    const { exposed } = this;
    if (!exposed) return headers;
    return Object.fromEntries(Object.entries(headers).filter(([name]) => ALWAYS_SEEN.includes(name) || exposed.includes(name)));
  }
}
