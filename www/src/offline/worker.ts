/**
 * The service worker that keeps the page, so that it opens without a network. Models are none of its business: the
 * package stores them.
 *
 * Each version of the page has a cache of its own, which is filled and checked before anything of it is shown. A page
 * that is open goes on with the scripts of its own version: their names have their hashes, and the cache of the version
 * before stays until the next one comes.
 */

import { engineFiles } from 'rlx-wasm/offline';

/** Paths of the page's files and their hashes (`plugins/offline.js`): kept at once, and once they were used. */
declare const FILES: { readonly early: Files; readonly late: Files; readonly version: string };
interface Files {
  readonly [path: string]: string;
}
const { early, late, version } = FILES;

/** What TypeScript's types of pages lack. */
interface WorkerEvent extends Event {
  readonly request: Request;
  respondWith(answer: Promise<Response>): void;
  waitUntil(work: Promise<unknown>): void;
}
declare const clients: { claim(): Promise<void> };
declare const registration: ServiceWorkerRegistration;
declare function skipWaiting(): Promise<void>;

/** Several copies of the page may share an origin, each in its folder. */
const MINE = `rlx-page ${registration.scope} `;
const NAME = MINE + version;

const addressOf = (path: string) => new URL(path === 'index.html' ? './' : path, registration.scope).href;
/** Only what the build names by its content never changes. */
const isHashed = (path: string) => path.startsWith('assets/');

/** The caches of other versions, the latest first. */
async function others(): Promise<string[]> {
  const names = await caches.keys(); // in the order in which they were made
  return names.filter((name) => name.startsWith(MINE) && name !== NAME).reverse();
}

async function fromOthers(path: string): Promise<Response | undefined> {
  for (const cacheName of await others()) {
    const found = await caches.match(addressOf(path), { cacheName });
    if (found) return found;
  }
  return undefined;
}

/** Fetches all that the page needs, of this version and no other: hashes are checked. */
async function install(): Promise<void> {
  const cache = await caches.open(NAME);
  const take = async (path: string) => {
    const address = addressOf(path);
    const before = isHashed(path) ? await fromOthers(path) : undefined;
    await cache.put(address, before ?? (await fetched(address, path)));
  };
  try {
    await take('index.html');
    const { headers } = (await cache.match(addressOf('index.html')))!;
    await Promise.all(
      Object.keys(early)
        .filter((path) => path !== 'index.html')
        .map(take),
    );
    await Promise.all(builds(headers).map(take));
    // What was used before and is the same: it need not be fetched again.
    for (const path of Object.keys(late)) {
      const before = await fromOthers(path);
      if (before) await cache.put(addressOf(path), before);
    }
  } catch (error) {
    await caches.delete(NAME); // the next visit tries again
    throw error;
  }
  await skipWaiting();
}

async function fetched(address: string, path: string): Promise<Response> {
  const integrity = (early[path] ?? late[path])!;
  const answer = await fetch(address, { integrity, cache: isHashed(path) ? 'default' : 'no-cache' });
  if (!answer.ok) throw new Error(`the server answered ${answer.status} for ${address}`);
  // Browsers refuse to open a page by an answer that was redirected.
  return answer.redirected ? new Response(answer.body, { headers: answer.headers }) : answer;
}

/** The wasm files that this browser's engines need. */
function builds(page: Headers): string[] {
  const isolated = page.get('cross-origin-opener-policy') === 'same-origin' && page.has('cross-origin-embedder-policy');
  return engineFiles({ isolated }).map((name) => {
    const [stem] = name.split('.wasm');
    return Object.keys(late).find((path) => new RegExp(`^assets/${stem}-[^/]{8}\\.wasm$`).test(path))!;
  });
}

/** Removes all versions but this one and the one before, whose pages may still be open. */
async function activate(): Promise<void> {
  for (const name of (await others()).slice(1)) await caches.delete(name);
  await clients.claim();
}

/** The file of the page that a request asks for: undefined for models, ranges, and whatever is at other addresses. */
function fileOf({ method, url, headers, mode }: Request): string | undefined {
  if (method !== 'GET' || headers.has('range') || !url.startsWith(registration.scope)) return undefined;
  const path = url.slice(registration.scope.length).split(/[?#]/)[0]! || 'index.html';
  if (path in early || path in late) return path;
  return mode !== 'navigate' && isHashed(path) ? path : undefined; // perhaps of the version before
}

async function answer(event: WorkerEvent, path: string): Promise<Response> {
  const { request } = event;
  try {
    const address = addressOf(path);
    const kept =
      (await caches.match(address, { cacheName: NAME })) ?? (isHashed(path) ? await fromOthers(path) : undefined);
    if (kept) return kept;
    if (path in late) {
      const came = await fetched(address, path);
      const copy = came.clone();
      event.waitUntil(caches.open(NAME).then((cache) => cache.put(address, copy)));
      return came;
    }
  } catch {
    // Storage that cannot be used, or a file of which the server has another version: as if there were no worker.
  }
  return fetch(request);
}

addEventListener('install', (event) => (event as WorkerEvent).waitUntil(install()));
addEventListener('activate', (event) => (event as WorkerEvent).waitUntil(activate()));
addEventListener('fetch', (given) => {
  const event = given as WorkerEvent;
  const path = fileOf(event.request);
  if (path !== undefined) event.respondWith(answer(event, path));
});
