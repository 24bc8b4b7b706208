// The demo's development server.

import assert from 'node:assert/strict';
import { createServer as createHttp } from 'node:http';
import { test } from 'node:test';
import { createServer } from 'vite';
import { inRoot } from '../../scripts/lib/tools.mjs';

test('the demo is served, and a file that is not there is missing: a model may lack files', async () => {
  const vite = await createServer({
    root: inRoot('www'),
    server: { middlewareMode: true, ws: false },
    optimizeDeps: { noDiscovery: true },
    logLevel: 'error',
  });
  const server = createHttp(vite.middlewares);
  try {
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const ask = async (path) => {
      const { status, headers } = await fetch(`http://127.0.0.1:${server.address().port}/${path}`);
      return [status, headers.get('content-type')];
    };
    for (const page of ['', 'peers.html', 'devices.html']) assert.deepEqual(await ask(page), [200, 'text/html'], page);
    for (const file of ['none/config.json', 'rustdoc-29m/config.json']) assert.equal((await ask(file))[0], 404, file);
  } finally {
    server.close();
    server.closeAllConnections();
    await vite.close();
  }
});
