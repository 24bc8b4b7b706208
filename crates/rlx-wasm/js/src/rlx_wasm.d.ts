// What `wasm-bindgen --target web` makes of crates/rlx-wasm, as far as the package uses it.

import type { GpuHost } from './gpu_host.js';
import type { Platform, WasmEngine } from './wasm.js';

export default function init(options: {
  module_or_path: string | URL | Response | ArrayBufferView | ArrayBuffer | WebAssembly.Module;
}): Promise<unknown>;

export interface RlxEngine extends WasmEngine {}
export class RlxEngine {
  constructor(optionsJson: string, platform: Platform, gpu: GpuHost | undefined);
}
