// The service worker of the built demo (src/offline/worker.ts): made once all files are there, with a list of them.
//
// Files of app/ (manifest and icons) go along as they are.

import { createHash } from 'node:crypto';
import { cpSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { build } from 'vite';

const WORKER = 'sw.js';

/** The other engine that the benchmark may load: kept once it was. */
const PEERS = /(^|\/)peers\b/;

/** Scripts above this many bytes are kept once they were used: they are not the page's own. */
const MOST_EARLY_BYTES = 300_000;

/** Paths in the built demo with their hashes, as `fetch` checks them: what is kept at once, and what once it was used. */
function filesIn(folder) {
  const early = {};
  const late = {};
  for (const name of readdirSync(folder, { recursive: true }).map((each) => each.replaceAll('\\', '/')).sort()) {
    // Models are kept by the package.
    if (!/\.(html|js|css|wasm|svg|png|webmanifest)$/.test(name) || name === WORKER) continue;
    const path = join(folder, name);
    const to = name.endsWith('.wasm') || PEERS.test(name) || statSync(path).size > MOST_EARLY_BYTES ? late : early;
    to[name] = `sha256-${createHash('sha256').update(readFileSync(path)).digest('base64')}`;
  }
  return { early, late };
}

async function writeWorker({ root, build: { outDir, target } }) {
  const folder = resolve(root, outDir);
  cpSync(join(root, 'app'), join(folder, 'app'), { recursive: true });
  const { early, late } = filesIn(folder);
  const input = join(root, 'src', 'offline', 'worker.ts');
  const version = createHash('sha256').update(JSON.stringify([early, late])).update(readFileSync(input)).digest('hex').slice(0, 12);
  await build({
    configFile: false, root, publicDir: false, logLevel: 'warn',
    define: { FILES: JSON.stringify({ early, late, version }) },
    build: {
      target, outDir, emptyOutDir: false, reportCompressedSize: false,
      // One file without imports, which every browser's service workers take.
      rolldownOptions: { input, output: { entryFileNames: WORKER, format: 'iife' } },
    },
  });
}

/**
 * In place of a worker, for a browser that has one of this address from a built demo: it removes itself, and what it
 * kept, so that the page is the development server's.
 */
const NONE = `
addEventListener('install', () => skipWaiting());
addEventListener('activate', (event) => event.waitUntil((async () => {
  for (const name of await caches.keys()) if (name.startsWith('rlx-page ')) await caches.delete(name);
  await registration.unregister();
  for (const client of await clients.matchAll({ type: 'window' })) client.navigate(client.url);
})()));
`;

export function offline() {
  let config;
  return {
    name: 'rlx-offline',
    configResolved: (resolved) => void (config = resolved),
    closeBundle: async () => {
      if (config.command === 'build') await writeWorker(config);
    },
    configureServer: ({ middlewares }) => {
      middlewares.use(`/${WORKER}`, (_, response) => response.setHeader('content-type', 'text/javascript').end(NONE));
    },
  };
}
