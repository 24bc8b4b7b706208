/** Where a caller's headers go, and where not. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelItem } from '../src/options.js';
import { RlxError } from '../src/error.js';
import { fetcherFor } from '../src/request.js';

const headers = { authorization: 'Bearer t', 'x-key': 'k' };

/** A web of servers: what each address answers; `opaque` as browsers show redirects. */
function web(answers: Record<string, string | number>, opaque = false) {
  const asked: string[] = [];
  const ask = async (url: string, init: RequestInit = {}): Promise<Response> => {
    const sent = new Headers(init.headers);
    asked.push([url, ...[...sent].map(([name, value]) => `${name}: ${value}`)].join(', '));
    const answer = answers[url] ?? 404;
    if (typeof answer === 'number') return new Response(null, { status: answer });
    if (init.redirect !== 'manual') return ask(new URL(answer, url).href, init);
    return opaque ? Object.defineProperty(Response.error(), 'type', { value: 'opaqueredirect' }) : new Response(null, { status: 302, headers: { location: answer } });
  };
  const get = async (url: string, items: ModelItem[] = [url], given: { [name: string]: string } | undefined = headers, init: RequestInit = {}) =>
    (await fetcherFor({ fetch: ask as typeof fetch, ...(given && { headers: given }) }, items)(url, init)).status;
  return { get, asked };
}

test('headers go to the origin of the first address, and to no other', async () => {
  const { get, asked } = web({ 'https://a/m': 200, 'https://b/m': 200 });
  const items = ['https://a/m', new URL('https://b/m')];
  assert.deepEqual([await get('https://a/m', items), await get('https://b/m', items)], [200, 200]);
  assert.deepEqual(asked, ['https://a/m, authorization: Bearer t, x-key: k', 'https://b/m']);
  await get('https://huggingface.co/x', ['hf:o/r']);
  assert.match(asked.at(-1)!, /Bearer/);
  await get('https://a/m', [new Blob()]);
  assert.equal(asked.at(-1), 'https://a/m');
});

test('a range stays beside them, and is what it was', async () => {
  const { get, asked } = web({ 'https://a/m': 200 });
  await get('https://a/m', undefined, { ...headers, range: 'bytes=0-1' }, { headers: { range: 'bytes=5-' } });
  assert.equal(asked[0], 'https://a/m, authorization: Bearer t, range: bytes=5-, x-key: k');
});

test('headers do not follow a redirect to another origin, nor come back from there', async () => {
  const { get, asked } = web({ 'https://a/m': '/n', 'https://a/n': 'https://b/m', 'https://b/m': 'https://a/o', 'https://a/o': 200 });
  assert.equal(await get('https://a/m'), 200);
  assert.deepEqual(asked, ['https://a/m, authorization: Bearer t, x-key: k', 'https://a/n, authorization: Bearer t, x-key: k', 'https://b/m', 'https://a/o']);
});

test('a browser follows a redirect that it hides with authorization alone', async () => {
  const { get, asked } = web({ 'https://a/m': '/n', 'https://a/n': 200 }, true);
  assert.equal(await get('https://a/m'), 200);
  assert.deepEqual(asked.slice(1), ['https://a/m, authorization: Bearer t', 'https://a/n, authorization: Bearer t']);
});

test('a circle of redirects ends, and what is no header is usage', async () => {
  const { get, asked } = web({ 'https://a/m': '/m' });
  await assert.rejects(get('https://a/m'), (error: unknown) => error instanceof RlxError && error.code === 'io');
  assert.equal(asked.length, 20);
  assert.throws(() => fetcherFor({ headers: { 'a b': 'c' } }, []), (error: unknown) => error instanceof RlxError && error.code === 'usage' && error.at === 'headers');
});

test('without headers nothing is changed', () => {
  const own = (async () => new Response()) as typeof fetch;
  assert.equal(fetcherFor({ fetch: own }, []), own);
});
