/** The public types of `rlx-wasm/inspect`, written by hand like `types.ts`. */

import type { SessionInfo, SessionOptions } from './session_types.js';
import type { LoadOptions } from './types.js';

/** What to look at, and for which device it is compiled. Options have the meaning of `Session.load` and `Engine.load`. */
export interface InspectOptions extends
  Pick<SessionOptions, 'config' | 'graph' | 'weights' | 'device' | 'gpu' | 'cache' | 'tuning' | 'wasm' | 'fetch' | 'headers' | 'signal'>,
  Pick<LoadOptions, 'contextLength' | 'blockLength' | 'conversationBytes' | 'kv' | 'activations'> {
  /** A model; without it `graph` is given. */
  model?: LoadOptions['model'];
}

/** A program of a network at every stage of its compilation. */
export interface InspectedProgram {
  name: string;
  /** Blocks, as the model's author wrote them; null for a graph of operators. */
  hir: string | null;
  /** Operators, after every pass. */
  mir: string;
  /** Steps over addresses. */
  lir: string;
  fusion: FusionReport;
  dispatch: DispatchReport;
  /** The arena as a picture, SVG of 1200 x 600: time across, bytes up; a rectangle's `<title>` names a buffer. */
  memory: string;
  /** Operators and steps. */
  nodes: number;
  steps: number;
  /** Bytes of the network's weights and states, and of the program's arena. */
  weightBytes: number;
  stateBytes: number;
  arenaBytes: number;
  /** Most bytes that live at one time, below which no arena can be; and those of all buffers side by side. */
  largestLiveBytes: number;
  unsharedBytes: number;
  /** As `EngineInfo.fingerprint`: of the same program on the same device it is equal. */
  fingerprint: string;
  /** What a GPU runs; null on the CPU. */
  kernels: InspectedKernels | null;
}

/** What became of operators. */
export interface FusionReport {
  /** Operators before and after. */
  nodes: [number, number];
  /** What a run costs by the target's model, before and after; null where a size is not known. */
  traffic: { before: Traffic; after: Traffic } | null;
  /** How many changes each pass made. */
  fused: { [pass: string]: number };
  /** What nearly fused, and why it did not. */
  misses: { pattern: string; node: string; reason: string; context: string; hint: string }[];
}

export interface Traffic {
  launches: number;
  bytes: number;
  time_us: number;
}

/** How the target runs each kind of operator, and why. */
export interface DispatchReport {
  backend: string;
  policy: string;
  kinds: { kind: string; nodes: number; path: string; why: string }[];
  unsupported: { node: string; kind: string; form: string; why: string }[];
}

/** Shaders of a program. */
export interface InspectedKernels {
  /** WGSL, each text once. */
  shaders: string[];
  /** One for each step; `shader` is an index, and null for a step that computes nothing. */
  steps: { label: string; operator: string; shader: number | null; groups: [number, number, number] | null }[];
}

/** Facts about a model. */
export type InspectedModel = NonNullable<SessionInfo['model']>;
