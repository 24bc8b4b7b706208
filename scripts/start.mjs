// `npm start`: everything from a fresh clone to the demo at http://localhost:8080.
//
// The page is served as soon as the build is there that most browsers take. The build for browsers
// without relaxed SIMD follows behind it; a page that asks for one that is not there yet waits for it.

import { basename, dirname, join } from 'node:path';
import { BUILDS, GRAMMAR, GRAPHS, buildPackage, buildWasm, dist } from './build.mjs';
import { ensureNpm, main, inRoot, requireNode, requireRust, say } from './lib/tools.mjs';

/** What Chromium and Firefox take on a page that is not cross-origin isolated, and what the others do. */
const FIRST = 'rlx-relaxed';
const SECOND = 'rlx';

/** What a page may ask for. Builds that share their glue stand behind the one that is made first. */
const ALL = [...BUILDS, ...GRAPHS, ...GRAMMAR].sort((a, b) => Number(b.name === FIRST) - Number(a.name === FIRST));

/** Which build makes a file of the package's dist, if one does. */
function buildOf(path) {
  if (dirname(path) !== dist) return undefined;
  const [stem, extension] = basename(path).split('.');
  return ALL.find(({ name, glue }) => (extension === 'wasm' ? name : glue) === stem)?.name;
}

/** Builds what the page asks for and nobody has asked for before. */
const onDemand = {
  name: 'rlx-builds',
  enforce: 'pre',
  resolveId: (id, importer) => {
    const path = importer && join(dirname(importer.split('?')[0]), id);
    return path && buildOf(path) ? path : null;
  },
  load: async (id) => {
    const name = buildOf(id);
    if (name) await buildWasm(name);
    return null;
  },
  configureServer: (server) => {
    server.middlewares.use(async (request, _, next) => {
      const path = decodeURIComponent(new URL(request.url, 'http://x').pathname).replace(/^\/@fs/, '');
      const name = path.endsWith('.wasm') ? ALL.find((build) => basename(path) === `${build.name}.wasm`)?.name : undefined;
      next(await (name && buildWasm(name).then(() => undefined, (error) => error)));
    });
  },
};

await main(async () => {
  requireNode();
  requireRust();
  await ensureNpm();
  await Promise.all([buildWasm(FIRST), buildPackage()]);
  const { createServer } = await import('vite');
  // One library is CommonJS. Nothing else needs bundling beforehand, and a search for it would stumble over builds that
  // are not made yet.
  const optimizeDeps = { noDiscovery: true, include: ['highlight.js/lib/core'] };
  // Builds that are made on demand are waited for: a page that is open must not begin anew with each.
  const watch = { ignored: [`${dist}/**`] };
  const server = await createServer({ root: inRoot('www'), server: { port: 8080, watch }, plugins: [onDemand], optimizeDeps });
  await server.listen();
  const address = server.resolvedUrls?.local[0] ?? 'http://localhost:8080/';
  say(`the demo is at ${address} (Ctrl-C stops it)`);
  say(`behind it the build for browsers without relaxed SIMD, such as Safari, is made:`);
  await buildWasm(SECOND);
  say(`the demo is at ${address} for every browser`);
});
