// A program's time by kernel in Node on Dawn, Chrome's WebGPU: `inspection.trace` of `rlx-wasm/inspect`, as JSON.
//
//   node benches/webgpu/trace.mjs FILE [--program decode] [--past N] [--context N]
//
// Needs `npm run build` and a driver that Dawn takes. DAWN names another `dawn.node` than npm's.

import { createRequire } from 'node:module';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { inspect } from '../../crates/rlx-wasm/js/dist/inspect.js';

const { values, positionals: [file] } = parseArgs({
  allowPositionals: true,
  options: { program: { type: 'string', default: 'decode' }, past: { type: 'string', default: '500' }, context: { type: 'string', default: '4608' } },
});
const { create, globals } = process.env.DAWN ? createRequire(import.meta.url)(process.env.DAWN) : await import('webgpu');
Object.assign(globalThis, globals);
globalThis.rlxBenchGpu = create([]); // kept reachable: the binding frees a device under a promise otherwise
const inspection = await inspect({ model: file, device: 'webgpu', gpu: globalThis.rlxBenchGpu, contextLength: Number(values.context) });
const trace = await inspection.trace(values.program, { past: Number(values.past) });
const { launches, ...facts } = trace;
const sums = new Map();
for (const { kernel, label, ms, readBytes, writtenBytes } of launches) {
  // Layers have equal kernels: their labels differ in the number alone.
  const name = `${label.replace(/\d+/, '*')}: ${kernel}`;
  const sum = sums.get(name) ?? { launches: 0, us: 0, bytes: 0 };
  sums.set(name, { launches: sum.launches + 1, us: sum.us + ms * 1000, bytes: sum.bytes + readBytes + writtenBytes });
}
const kernels = [...sums].sort(([, a], [, b]) => b.us - a.us).map(([name, { launches, us, bytes }]) => ({ name, launches, us, gb_per_s: bytes / us / 1000 }));
console.log(JSON.stringify({ file: basename(file), target: inspection.target, program: values.program, ...facts, kernels }, null, 2));
inspection.dispose();
process.exit(0);
