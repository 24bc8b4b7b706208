/**
 * Where a shard's bytes come from: an address or a file. A source opens a stream of bytes from
 * any offset; nothing here holds more than the one chunk that the stream hands out.
 */

import { RlxError, throwIfAborted } from './error.js';

/** A stream and what is known about the whole of which it is the rest. */
export interface Opened {
  stream: ReadableStream<Uint8Array>;
  /** Length of the whole, when known. */
  bytes?: number;
  /** Tells one version of the whole from another: an ETag, or length and date. */
  validator?: string;
}

export interface Source {
  /** What errors call it: an address or a file name. */
  readonly name: string;
  readonly kind: 'network' | 'cache' | 'file';
  /** A stream of the bytes from `offset` on. */
  open(offset: number, signal?: AbortSignal): Promise<Opened>;
}

/** A `File` or `Blob` of the page; reading it again gives the same bytes. */
export class BlobSource implements Source {
  constructor(
    readonly blob: Blob,
    readonly name = blob instanceof File ? blob.name : 'blob',
    readonly kind: 'file' | 'cache' = 'file',
  ) {}

  async open(offset: number, signal?: AbortSignal): Promise<Opened> {
    throwIfAborted(signal);
    return { stream: this.blob.slice(offset).stream(), bytes: this.blob.size };
  }
}

/**
 * The version of a response: its ETag, else length and date, else nothing. Across origins a
 * page sees the ETag only if the server exposes it; length and date it always sees.
 */
export function validatorOf(headers: Headers): string | undefined {
  const etag = headers.get('etag');
  if (etag) return `etag:${etag}`;
  const length = headers.get('content-length');
  const date = headers.get('last-modified');
  return length && date ? `date:${length}:${date}` : undefined;
}

/** What a response says about the length of the whole, if it is plain bytes. */
function wholeBytes(response: Response, offset: number): number | undefined {
  // A compressed response counts compressed bytes.
  const encoding = response.headers.get('content-encoding');
  if (encoding && encoding !== 'identity') return undefined;
  if (response.status === 206) {
    const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '');
    if (range && Number(range[1]) === offset) return Number(range[2]);
    return undefined;
  }
  const length = response.headers.get('content-length');
  return length === null ? undefined : Number(length);
}

export function httpError(response: Response, url: string): RlxError {
  const said = `${response.status} ${response.statusText}`.trim();
  const missing = response.status === 404 || response.status === 410;
  return new RlxError('io', `the server answered ${said}`, {
    at: url,
    hint: missing ? 'check the address of the shard' : 'try again, or ask who runs the server',
  });
}

export function networkError(cause: unknown, url: string): RlxError {
  return new RlxError('io', 'the server could not be reached', {
    at: url,
    hint: 'check the address, the connection, and that the server allows this origin (CORS)',
    cause,
  });
}

/** An address. */
export class UrlSource implements Source {
  readonly kind = 'network';

  /** `cacheMode`: `no-store` when the package keeps the bytes itself. */
  constructor(
    readonly name: string,
    private readonly cacheMode: RequestCache = 'default',
    private readonly fetcher: typeof fetch = (...args) => fetch(...args),
  ) {}

  async open(offset: number, signal?: AbortSignal): Promise<Opened> {
    const headers: Record<string, string> = offset > 0 ? { range: `bytes=${offset}-` } : {};
    let response: Response;
    try {
      response = await this.fetcher(this.name, { headers, cache: this.cacheMode, signal: signal ?? null });
    } catch (cause) {
      throwIfAborted(signal);
      throw networkError(cause, this.name);
    }
    if (!response.ok) throw httpError(response, this.name);
    if (!response.body) throw new RlxError('io', 'the server sent no body', { at: this.name });
    const bytes = wholeBytes(response, offset);
    const validator = validatorOf(response.headers);
    let stream: ReadableStream<Uint8Array> = response.body;
    if (response.status === 206) {
      if (bytes === undefined) {
        throw new RlxError('io', `the server sent another range than bytes ${offset} and on`, { at: this.name });
      }
    } else if (offset > 0) {
      stream = skip(stream, offset); // a server without ranges sends the whole again
    }
    return {
      stream,
      ...(bytes === undefined ? {} : { bytes }),
      ...(validator === undefined ? {} : { validator }),
    };
  }
}

/** The stream without its first `bytes` bytes, which are read and dropped. */
export function skip(stream: ReadableStream<Uint8Array>, bytes: number): ReadableStream<Uint8Array> {
  let left = bytes;
  return stream.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, out) {
      if (left < chunk.byteLength) out.enqueue(left > 0 ? chunk.subarray(left) : chunk);
      left = Math.max(0, left - chunk.byteLength);
    },
  }, undefined, { highWaterMark: 0 }));
}
