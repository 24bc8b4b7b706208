// From nothing to a first token: the npm package in Node on Dawn loads one GGUF file, as JSON with the
// seconds of each phase.
//
//   node benches/webgpu/load.mjs FILE... [--kept FILE]
//
// `--kept` names a file that stands for a page's `localStorage`: with it a second run is a second visit,
// whose GPU has been compared with the CPU before. Needs what dawn.mjs needs.

import { existsSync, openAsBlob, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { Engine } from '../../crates/rlx-wasm/js/dist/index.js';

const { values: { kept }, positionals: files } = parseArgs({ allowPositionals: true, options: { kept: { type: 'string' } } });
if (kept) {
  const items = existsSync(kept) ? JSON.parse(readFileSync(kept, 'utf8')) : {};
  globalThis.localStorage = {
    getItem: (name) => items[name] ?? null,
    setItem(name, text) {
      items[name] = text;
      writeFileSync(kept, JSON.stringify(items));
    },
  };
}

const { create, globals } = process.env.DAWN ? createRequire(import.meta.url)(process.env.DAWN) : await import('webgpu');
Object.assign(globalThis, globals);
globalThis.rlxBenchGpu = create([]); // kept reachable: the binding frees a device under a promise otherwise
const model = await Promise.all(files.map((file) => openAsBlob(file)));
const start = performance.now();
const seconds = () => Number(((performance.now() - start) / 1000).toFixed(3));
const began = {};
const engine = await Engine.load({ model, device: 'webgpu', gpu: globalThis.rlxBenchGpu, onProgress: ({ phase }) => (began[phase] ??= seconds()) });
const loaded = seconds();
for await (const _ of await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 2, stream: true })) began.token ??= seconds();
const gigabytes = model.reduce((sum, { size }) => sum + size, 0) / 1e9;
console.log(JSON.stringify({ files: files.map((file) => basename(file)), gigabytes, began_s: began, loaded_s: loaded, gigabytes_per_s: gigabytes / loaded }));
engine.dispose();
process.exit(0);
