/** What the page and the thread of the encoder say to each other. */

import type { DeviceChoice, EmbedderOptions, ErrorCode, LoadProgress } from 'rlx-wasm';

export type Ask =
  | { id: number; load: { model: EmbedderOptions['model']; paths: readonly string[]; device: DeviceChoice } }
  | { id: number; embed: readonly string[] };

/** What the encoder is, once it is loaded. */
export interface EncoderInfo {
  width: number;
  maxTokens: number;
  device: 'webgpu' | 'cpu';
  adapter: string;
  fallbackReason: string | null;
}

/** Vectors one behind the other, and how many of the texts were longer than the model reads. */
export interface Vectors {
  vectors: Float32Array<ArrayBuffer>;
  truncated: number;
}

export interface Fault {
  code: ErrorCode;
  what: string;
  at: string;
  hint: string;
}

export type Tell =
  | { id: number; progress: LoadProgress }
  | { id: number; notice: string }
  | { id: number; result: EncoderInfo | Vectors }
  | { id: number; fault: Fault };
