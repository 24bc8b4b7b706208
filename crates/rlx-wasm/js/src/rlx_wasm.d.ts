// What scripts/lib/glue.mjs makes of wasm-bindgen's glue for crates/rlx-wasm, as far as the package uses it.

import type { GpuHost } from './gpu_host.js';
import type { Platform, WasmEngine } from './wasm.js';

/** What an instance is surrounded with. */
export interface Around {
  /** Takes the module's exports and answers what JavaScript calls instead. */
  guard(exports: WebAssembly.Exports): WebAssembly.Exports;
  /** Called when Rust panics, before the trap. */
  panicked(message: string): void;
}

export interface Glue {
  init(options: { module_or_path: WebAssembly.Module }): Promise<unknown>;
  RlxEngine: new (optionsJson: string, platform: Platform, gpu: GpuHost | undefined) => WasmEngine & { free(): void };
}

/** The glue of one more instance. */
export default function instantiate(around: Around): Glue;
