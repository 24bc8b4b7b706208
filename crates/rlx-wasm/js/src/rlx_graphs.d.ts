// The glue of the build for networks that are no language models: as `rlx_wasm.d.ts`, with another class.

import type { GpuHost } from './gpu_host.js';
import type { Around } from './rlx_wasm.js';
import type { Platform } from './wasm.js';
import type { WasmSession } from './wasm_session.js';

export interface GraphsGlue {
  init(options: { module_or_path: WebAssembly.Module }): Promise<unknown>;
  RlxSession: new (optionsJson: string, platform: Platform, gpu: GpuHost | undefined) => WasmSession & { free(): void };
}

export default function instantiate(around: Around): GraphsGlue;
