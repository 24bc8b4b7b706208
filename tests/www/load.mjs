// A module of the demo for Node: bundled, because Node reads neither TypeScript's imports nor JSX.

import { build } from 'esbuild';
import { fileURLToPath } from 'node:url';

const source = fileURLToPath(new URL('../../www/src/', import.meta.url));

/** What these modules export, of one bundle. */
export async function load(...names) {
  const {
    outputFiles: [{ text }],
  } = await build({
    stdin: { contents: names.map((name) => `export * from './${name}';`).join('\n'), resolveDir: source },
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    conditions: ['import'],
    // The glue of wasm modules, which no test here runs, and which a clone without their builds lacks.
    external: ['./rlx_*.js'],
  });
  return import(`data:text/javascript;base64,${Buffer.from(text).toString('base64')}`);
}
