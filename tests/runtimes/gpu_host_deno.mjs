// Runs in Deno; prints one line of JSON: each case's name and `ok` or what went wrong.

import { GpuHost } from '../../crates/rlx-wasm/js/dist/gpu_host.js';
import { cases } from '../support/gpu_host_cases.mjs';

const results = {};
for (const [name, run] of Object.entries(cases)) {
  try {
    await run({ GpuHost, gpu: navigator.gpu });
    results[name] = 'ok';
  } catch (error) {
    results[name] = String(error?.stack ?? error);
  }
}
console.log(JSON.stringify(results));
Deno.exit(0);
