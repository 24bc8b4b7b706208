/**
 * `rlx-wasm/openai`: answers requests as OpenAI's server does, so that code for its HTTP interface runs on an engine: in a
 * service worker, or as the `fetch` of a client.
 *
 * ```js
 * import OpenAI from 'openai';
 * import { handle } from 'rlx-wasm/openai';
 *
 * const client = new OpenAI({ apiKey: '-', baseURL: 'http://rlx/v1', fetch: (...request) => handle(new Request(...request), { engine }) });
 * ```
 */

import { RlxError, toRlxError, usage } from '../error.js';
import type { ErrorCode } from '../types.js';
import type { Completions, EmbeddingRequest, TextCompletions } from './types.js';

/** What answers: an `Engine`, an `Embedder`, or both. */
export interface Served {
  engine?: { readonly chat: { readonly completions: Completions }; readonly completions: TextCompletions; info(): { model: { name: string } } };
  embedder?: { readonly embeddings: { create(request: EmbeddingRequest): Promise<object> }; info(): { model: { family: string } | null } };
}

const STATUS: Partial<Record<ErrorCode, number>> = {
  usage: 400, context_full: 400, unsupported: 400, cancelled: 499, disposed: 503, device_lost: 503, device_unavailable: 503, out_of_memory: 503,
};

/** An error in OpenAI's shape. */
function errorOf(thrown: unknown): { error: { message: string; type: string; param: string | null; code: string } } {
  const { message, code, at } = toRlxError(thrown);
  const type = (STATUS[code] ?? 500) < 500 ? 'invalid_request_error' : 'server_error';
  return { error: { message, type, param: at === '' ? null : at, code: code === 'context_full' ? 'context_length_exceeded' : code } };
}

const json = (value: object, status = 200) =>
  new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json' } });

/** Chunks as events, and the word that ends them. Who cancels the body stops the answer. */
function events(chunks: AsyncIterableIterator<object>): Response {
  const encoder = new TextEncoder();
  const event = (text: string) => encoder.encode(`data: ${text}\n\n`);
  const body = new ReadableStream<Uint8Array>({
    async pull(stream) {
      try {
        const { value, done } = await chunks.next();
        stream.enqueue(event(done ? '[DONE]' : JSON.stringify(value)));
        if (done) stream.close();
      } catch (error) {
        stream.enqueue(event(JSON.stringify(errorOf(error))));
        stream.close();
      }
    },
    async cancel() {
      await chunks.return?.();
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' } });
}

/** The body of a request, with its signal. */
async function bodyOf(request: Request): Promise<{ [key: string]: unknown }> {
  let body: unknown;
  try {
    body = await request.json();
  } catch {
    throw usage('the body is no JSON', 'body');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw usage('the body must be an object', 'body');
  return { ...body, signal: request.signal };
}

const isStream = (answer: object): answer is AsyncIterableIterator<object> => Symbol.asyncIterator in answer;

const POSTS: { [path: string]: (served: Served, body: never) => Promise<object> | undefined } = {
  'chat/completions': ({ engine }, body) => engine?.chat.completions.create(body),
  completions: ({ engine }, body) => engine?.completions.create(body),
  embeddings: ({ embedder }, body) => embedder?.embeddings.create(body),
};

function models({ engine, embedder }: Served): { id: string; object: 'model'; created: number; owned_by: string }[] {
  const names = [engine?.info().model.name, embedder && (embedder.info().model?.family ?? 'embedder')];
  return names.filter((id) => id !== undefined).map((id) => ({ id, object: 'model', created: 0, owned_by: 'rlx' }));
}

/**
 * Answers a request for `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`, `/v1/models` or `/v1/models/…`; what
 * is before `/v1` does not matter. Errors are answers too: 400 for a wrong request, 404 for another path, 503 for an engine
 * without a device, also if it did not load. Only a request that was aborted rejects, with its reason.
 */
export async function handle(request: Request, served: Served | Promise<Served>): Promise<Response> {
  const path = /\/v1\/(.+?)\/?$/.exec(new URL(request.url).pathname)?.[1] ?? '';
  try {
    const post = Object.hasOwn(POSTS, path) ? POSTS[path] : undefined;
    if (post && request.method === 'POST') {
      const answer = await post(await served, await bodyOf(request) as never);
      if (answer) return isStream(answer) ? events(answer) : json(answer);
    } else if (request.method === 'GET' && path === 'models') {
      return json({ object: 'list', data: models(await served) });
    } else if (request.method === 'GET' && path.startsWith('models/')) {
      const name = path.slice('models/'.length);
      const found = models(await served).find(({ id }) => id === name || encodeURIComponent(id) === name);
      if (found) return json(found);
    }
    const missing = new RlxError('usage', `there is no ${request.method} ${path || new URL(request.url).pathname} here`);
    return json(errorOf(missing), 404);
  } catch (error) {
    // As `fetch` does.
    request.signal.throwIfAborted();
    return json(errorOf(error), STATUS[toRlxError(error).code] ?? 500);
  }
}
