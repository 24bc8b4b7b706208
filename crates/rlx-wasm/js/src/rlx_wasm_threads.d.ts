// The glue of the threaded builds: that of `rlx_wasm.d.ts`, memory that workers share, and what they call.

export default function init(options: {
  module_or_path: string | URL | Response | ArrayBufferView | ArrayBuffer | WebAssembly.Module;
  memory?: WebAssembly.Memory;
}): Promise<{ memory: WebAssembly.Memory }>;

export { RlxEngine } from './rlx_wasm.js';

/** What `init` compiled. */
export function sharedModule(): WebAssembly.Module;
/** Makes the calling worker one of the CPU's threads; never returns. */
export function joinPool(): void;
/** After a trap in `joinPool`: ends what waits for this worker. */
export function breakUp(): void;
