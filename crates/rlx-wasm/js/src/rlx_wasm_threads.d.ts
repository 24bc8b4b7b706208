// The glue of the threaded builds: that of `rlx_wasm.d.ts`, memory that workers share, and what they call.

import type { Around, Glue } from './rlx_wasm.js';

export interface ThreadsGlue extends Glue {
  /** Without `memory` it makes one. */
  init(options: { module_or_path: WebAssembly.Module; memory?: WebAssembly.Memory }): Promise<{ memory: WebAssembly.Memory }>;
  /** Makes the calling worker one of the CPU's threads; never returns. */
  joinPool(): void;
}

export default function instantiate(around: Around): ThreadsGlue;
