// Compiles every .wgsl file of a folder with Dawn's Tint: naga accepts barriers that Tint rejects.
//
//   cargo run -p rlx-webgpu --example emit -- DIR && node crates/rlx-webgpu/tests/tint.mjs DIR [PART/PARTS]
//
// `1/2` compiles every second file from the first on, so that two processes share the work.
// Needs npm `webgpu` (a dependency of the repository's package.json). Its null backend compiles and
// computes nothing, so no GPU is needed.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { create, globals } from 'webgpu';

Object.assign(globalThis, globals);
const [dir, share = '1/1'] = process.argv.slice(2);
const [part, parts] = share.split('/').map(Number);
if (!dir || !(part >= 1 && part <= parts)) {
  console.error('usage: node tint.mjs DIR [PART/PARTS]');
  process.exit(2);
}
// Dawn frees what JavaScript no longer reaches, even while a promise of it is pending.
globalThis.rlxGpu = create(['backend=null']);
globalThis.rlxAdapter = await rlxGpu.requestAdapter();
globalThis.rlxDevice = await rlxAdapter.requestDevice({ requiredFeatures: ['subgroups', 'shader-f16'] });

const files = readdirSync(dir).filter((name) => name.endsWith('.wgsl')).sort().filter((_, i) => i % parts === part - 1);
let faults = 0;
for (const name of files) {
  const code = readFileSync(join(dir, name), 'utf8');
  rlxDevice.pushErrorScope('validation');
  const module = rlxDevice.createShaderModule({ code });
  const { messages } = await module.getCompilationInfo();
  const errors = messages.filter((m) => m.type === 'error').map((m) => `line ${m.lineNum}: ${m.message}`);
  const entry = /fn (\w+)\(\s*@builtin/.exec(code)?.[1];
  if (errors.length === 0) {
    rlxDevice.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: entry } });
  }
  const scope = await rlxDevice.popErrorScope();
  if (scope && errors.length === 0) errors.push(scope.message);
  if (errors.length > 0) {
    faults += 1;
    console.error(`${name}: ${errors.join('\n  ')}`);
  }
}
console.log(`Tint compiled ${files.length - faults} of ${files.length} kernels`);
process.exit(faults === 0 && files.length > 0 ? 0 : 1);
