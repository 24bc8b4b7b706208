/**
 * Sources of a shard's bytes: an address or a file. A source opens a stream of bytes from any offset;
 * only one chunk of it is in memory.
 */

import { cancelled, RlxError, throwIfAborted } from './error.js';
import { inTime, passes, PassingError, PATIENCE, retryAfter } from './retry.js';

/** What a response says about the version of a file. */
export interface Version {
  /** Distinguishes versions: an ETag, or length and date. */
  validator?: string;
  /** Length of the file, if it is known for sure. */
  bytes?: number;
  /** Length that the server gives, if the page cannot see whether it counts compressed bytes. */
  claimed?: number;
  /** The file's SHA-256, if the server says it: the Hub does, of files in its large file storage. */
  sha256?: string;
}

/** A stream, with its version. */
export interface Opened extends Version {
  stream: ReadableStream<Uint8Array>;
  /** Where in the file it begins. */
  at: number;
}

export interface Source {
  /** Its name in errors: an address or a file name. */
  readonly name: string;
  readonly kind: 'network' | 'cache' | 'file';
  /**
   * A stream of the whole file. With `rest`, and if the source can prove that the version is the same, a stream
   * of the bytes from `rest.offset` on. An answer that does not begin in `stallMs` is an error.
   */
  open(signal?: AbortSignal, rest?: { offset: number; of: Version }, stallMs?: number): Promise<Opened>;
}

/** A `File` or `Blob` of the page; reading it again gives the same bytes. */
export class BlobSource implements Source {
  constructor(
    readonly blob: Blob,
    readonly name = blob instanceof File ? blob.name : 'blob',
    readonly kind: 'file' | 'cache' = 'file',
  ) {}

  async open(signal?: AbortSignal, { offset = 0 } = {}): Promise<Opened> {
    throwIfAborted(signal);
    return { stream: this.blob.slice(offset).stream(), at: offset, bytes: this.blob.size };
  }
}

/**
 * The version in the headers: the ETag, else the file's length and the date, else nothing.
 * Across origins a page sees the ETag only if the server exposes it; length and date it always sees.
 */
export function validatorOf(headers: Headers, wholeBytes = headers.get('content-length')): string | undefined {
  const etag = headers.get('etag');
  if (etag) return `etag:${etag}`;
  const date = headers.get('last-modified');
  return wholeBytes && date ? `date:${wholeBytes}:${date}` : undefined;
}

/**
 * Whether equal validators mean equal bytes, so that two answers may be concatenated. Weak ETags
 * promise less; a date changes at most once a second, a file may change more often.
 */
export function isStrong(validator: string | undefined): boolean {
  return validator?.startsWith('etag:"') ?? false;
}

/** Whether two whole answers may have one version: they do not differ in anything that both show. */
export function sameVersion(a: Version, b: Version): boolean {
  const [length, other] = [a, b].map(({ bytes, claimed }) => bytes ?? claimed);
  return a.validator === b.validator && (length === undefined || other === undefined || length === other);
}

/** The version of a whole answer. */
function versionOf({ headers, type }: Response): Version {
  const validator = validatorOf(headers);
  const length = headers.get('content-length');
  // Content-Length counts the sent bytes, which may be compressed, but a page gets uncompressed ones.
  // Across origins it does not even see which of the two is the case.
  const encoding = headers.get('content-encoding') ?? (type === 'cors' ? 'hidden' : 'identity');
  const known = encoding === 'identity' ? 'bytes' : encoding === 'hidden' ? 'claimed' : undefined;
  const sha256 = /^"?([0-9a-f]{64})"?$/.exec(headers.get('x-linked-etag') ?? '')?.[1];
  return {
    ...(sha256 === undefined ? {} : { sha256 }),
    ...(validator === undefined ? {} : { validator }),
    ...(length === null || known === undefined ? {} : { [known]: Number(length) }),
  };
}

/** Whether the answer is exactly the bytes from `offset` to the end, of that version. */
function isRest({ status, headers }: Response, offset: number, of: Version): boolean {
  const [, first, last, total] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headers.get('content-range') ?? '') ?? [];
  const length = of.bytes ?? of.claimed;
  return status === 206 && total !== undefined && (headers.get('content-encoding') ?? 'identity') === 'identity'
    && Number(first) === offset && Number(last) === Number(total) - 1
    && validatorOf(headers, total) === of.validator && (length === undefined || length === Number(total));
}

export function httpError(response: Response, url: string): RlxError {
  const what = `the server answered ${`${response.status} ${response.statusText}`.trim()}`;
  if (response.status === 404 || response.status === 410) return missingError(url, what);
  const hint = response.status === 401 || response.status === 403
    ? 'check the name; if the file is private or gated, give a token: headers: { authorization: \'Bearer …\' }'
    : 'try again, or ask who runs the server';
  const more = { at: url, hint };
  return passes(response.status) ? new PassingError(what, more, retryAfter(response.headers)) : new RlxError('io', what, more);
}

/** Whether the answer is a page: of a network that wants a login first, or of a site. No file of a model is one. */
export const isPage = ({ headers }: Response): boolean => /^\s*(text\/html|application\/xhtml)/i.test(headers.get('content-type') ?? '');

/** The error for a file that a server has not. */
export const missingError = (url: string, what: string): RlxError =>
  new RlxError('io', what, { at: url, hint: 'check the address', cause: MISSING });

const MISSING = new Error('there is no such file');

/** Whether an error is the server's answer that there is no such file. */
export const isMissing = (error: unknown): boolean => error instanceof RlxError && error.cause === MISSING;

export function networkError(cause: unknown, url: string): RlxError {
  const hint = 'check the address, the connection, and that the server allows this origin (CORS)';
  return new PassingError('the server could not be reached', { at: url, hint, cause }, 0, true);
}

/** A request, which `signal` ends, and the lack of an answer. */
export async function ask(fetcher: typeof fetch, url: string, init: RequestInit, signal?: AbortSignal, stallMs = PATIENCE.stallMs): Promise<Response> {
  throwIfAborted(signal);
  const attempt = new AbortController();
  let stop = () => attempt.abort();
  const stopped = new Promise<never>((_, reject) => {
    stop = () => {
      attempt.abort();
      reject(cancelled());
    };
  });
  signal?.addEventListener('abort', stop, { once: true }); // it ends the body too
  const late = () => {
    attempt.abort();
    return new PassingError(`the server did not answer for ${stallMs / 1000} s`, { at: url, hint: 'try again' }, 0, true);
  };
  try {
    return await inTime(Promise.race([fetcher(url, { ...init, signal: attempt.signal }), stopped]), stallMs, late, true);
  } catch (cause) {
    throwIfAborted(signal);
    throw cause instanceof RlxError ? cause : networkError(cause, url);
  }
}

/** An address. */
export class UrlSource implements Source {
  readonly kind = 'network';

  /** `cacheMode`: `no-store` when the package keeps the bytes itself; none otherwise, for workerd knows no word for it. */
  constructor(
    readonly name: string,
    private readonly cacheMode?: RequestCache,
    private readonly fetcher: typeof fetch = (...args) => fetch(...args),
  ) {}

  async open(signal?: AbortSignal, rest?: { offset: number; of: Version }, stallMs?: number): Promise<Opened> {
    // The browser's own cache may have the beginning of the first answer, and would complete it with a range of
    // the present file, even if only a date, or nothing, says that both have one version.
    const cache = rest ? 'no-store' : this.cacheMode;
    const request = (init: RequestInit) => ask(this.fetcher, this.name, { ...(cache && { cache }), ...init }, signal, stallMs);
    if (rest && isStrong(rest.of.validator)) {
      const response = await request({ headers: { range: `bytes=${rest.offset}-` } });
      if (response.body && isRest(response, rest.offset, rest.of)) {
        return { ...rest.of, stream: response.body, at: rest.offset };
      }
      // A server without ranges, or one that has no time: the whole would be no better asked for.
      if (response.status === 200 || passes(response.status)) return this.#whole(response);
      // Another range or version, headers that this page may not see, or an error: request the whole file.
      await response.body?.cancel().catch(() => {});
    }
    return this.#whole(await request({}));
  }

  #whole(response: Response): Opened {
    const fault = !response.ok ? httpError(response, this.name)
      : isPage(response) ? new RlxError('io', 'the address gives a page (HTML) and not a file', { at: this.name, hint: 'check the address, and whether this network wants a login' })
        : !response.body ? new RlxError('io', 'the server sent no body', { at: this.name }) : undefined;
    if (fault) {
      void response.body?.cancel().catch(() => {}); // it would keep the connection
      throw fault;
    }
    return { ...versionOf(response), stream: response.body!, at: 0 };
  }
}
