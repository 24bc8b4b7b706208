/** Requests of a load: by the caller's `fetch`, with the caller's `headers`. */

import { addressOf } from './address.js';
import { RlxError, usage } from './error.js';
import { isAddress } from './options.js';
import type { ModelItem } from './options.js';
import type { LoadOptions } from './types.js';

export const HUB = 'https://huggingface.co';

/** Most redirects that are followed, as in browsers. */
const MOST_REDIRECTS = 20;

/** The origin that a model is from, which gets the caller's headers: that of its first address. */
function originOf(items: readonly ModelItem[]): string | undefined {
  const first = items.find(isAddress);
  if (first === undefined) return undefined;
  return String(first).startsWith('hf:') ? HUB : addressOf(first).origin;
}

/**
 * What a load fetches with. Headers go to the origin of the model's first address alone; where a redirect leads to
 * another origin they do not go along. A browser does not show where a redirect leads: it follows it with
 * `authorization` alone, which it takes off itself at another origin.
 */
export function fetcherFor({ fetch: own, headers: given }: Pick<LoadOptions, 'fetch' | 'headers'>, items: readonly ModelItem[]): typeof fetch {
  const ask: typeof fetch = own ?? ((...args) => fetch(...args));
  if (given === undefined) return ask;
  let secret: Headers;
  try {
    secret = new Headers(given);
  } catch (cause) {
    throw usage(`headers have a name or a value that HTTP does not allow: ${(cause as Error).message}`, 'headers');
  }
  const origin = originOf(items);
  const withHeaders = (init: RequestInit | undefined, more: Iterable<[string, string]>): RequestInit => {
    const headers = new Headers(init?.headers);
    for (const [name, value] of more) if (!headers.has(name)) headers.set(name, value);
    return { ...init, headers };
  };
  return async (input, init) => {
    let url = new URL(String(input));
    for (let hops = 0; hops < MOST_REDIRECTS; hops += 1) {
      if (url.origin !== origin) return ask(url.href, init);
      const response = await ask(url.href, { ...withHeaders(init, secret), redirect: 'manual' });
      if (response.type === 'opaqueredirect') {
        const authorization = secret.get('authorization');
        return ask(url.href, withHeaders(init, authorization === null ? [] : [['authorization', authorization]]));
      }
      const location = [301, 302, 303, 307, 308].includes(response.status) ? response.headers.get('location') : null;
      if (location === null) return response;
      await response.body?.cancel().catch(() => {});
      url = new URL(location, url);
    }
    throw new RlxError('io', 'the server redirects without end', { at: url.href });
  };
}
