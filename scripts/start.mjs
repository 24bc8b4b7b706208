// `npm start`: everything from a fresh clone to the demo at http://localhost:8080.

import { buildAll } from './build.mjs';
import { inRoot, main, say } from './lib/tools.mjs';

await main(async () => {
  await buildAll();
  const { createServer } = await import('vite');
  const server = await createServer({ root: inRoot('www'), server: { port: 8080 } });
  await server.listen();
  const address = server.resolvedUrls?.local[0] ?? 'http://localhost:8080/';
  say(`the demo is at ${address} (Ctrl-C stops it)`);
});
