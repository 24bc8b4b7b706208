// A module of the demo for Node: bundled, because Node reads neither TypeScript's imports nor JSX.

import { build } from 'esbuild';
import { fileURLToPath } from 'node:url';

const source = fileURLToPath(new URL('../../www/src/', import.meta.url));

export async function load(name) {
  const {
    outputFiles: [{ text }],
  } = await build({
    entryPoints: [source + name],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    conditions: ['import'],
  });
  return import(`data:text/javascript;base64,${Buffer.from(text).toString('base64')}`);
}
