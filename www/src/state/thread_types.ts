/** What the page and the thread of a model say to each other, whatever the model is for. */

import type { DeviceChoice, ErrorCode, LoadProgress, ModelSource } from 'rlx-wasm';

/** Loads a model; `paths` are those of its files in their folder. */
export interface LoadAsk {
  load: { model: ModelSource; paths: readonly string[]; device: DeviceChoice };
}

/** Where a model runs. */
export interface Where {
  device: 'webgpu' | 'cpu';
  adapter: string;
  fallbackReason: string | null;
}

export interface Fault {
  code: ErrorCode;
  what: string;
  at: string;
  hint: string;
}

/** What is told of the ask with this number. */
export type Tell = { id: number } & (
  { progress: LoadProgress } | { notice: string } | { told: unknown } | { result: unknown } | { fault: Fault }
);
