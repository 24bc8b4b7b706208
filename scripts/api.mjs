// `npm run api`: pages of the package's types, in target/api. Typedoc reads them by TypeScript's own interface, which
// TypeScript 7 does not have: both are installed beside, in the versions that go together.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dist, tsc } from './build.mjs';
import { inRoot, main, run, say } from './lib/tools.mjs';

const TOOLS = ['typedoc@0.28.20', 'typescript@5.9.3'];

await main(async () => {
  const folder = inRoot('target', 'typedoc');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true }));
  await run('npm', ['install', '--prefix', folder, '--no-audit', '--no-fund', '--prefer-offline', ...TOOLS]);
  await run(process.execPath, [tsc, '-p', 'crates/rlx-wasm/js', '--emitDeclarationOnly']);
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({
    compilerOptions: { lib: ['ES2023', 'ESNext.Disposable', 'DOM', 'DOM.AsyncIterable'], module: 'ESNext', moduleResolution: 'Bundler', types: [], skipLibCheck: true },
    files: [join(dist, 'index.d.ts')],
  }));
  const out = inRoot('target', 'api');
  await run(process.execPath, [
    join(folder, 'node_modules', 'typedoc', 'bin', 'typedoc'), '--tsconfig', join(folder, 'tsconfig.json'), '--entryPoints', join(dist, 'index.d.ts'),
    '--name', 'rlx-wasm', '--readme', inRoot('crates', 'rlx-wasm', 'js', 'README.md'), '--disableSources', '--out', out,
  ]);
  say(`the pages are in ${out}`);
});
