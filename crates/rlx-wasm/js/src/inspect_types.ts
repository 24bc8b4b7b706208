/** The public types of `rlx-wasm/inspect`, written by hand like `types.ts`. */

import type { SessionInfo, SessionOptions } from './session_types.js';
import type { LoadOptions } from './types.js';

/** What to look at, and for which device it is compiled. Options have the meaning of `Session.load` and `Engine.load`. */
export interface InspectOptions extends
  Pick<SessionOptions, 'config' | 'graph' | 'weights' | 'device' | 'gpu' | 'cache' | 'tuning' | 'wasm' | 'fetch' | 'headers' | 'signal'>,
  Pick<LoadOptions, 'contextLength' | 'blockLength' | 'conversationBytes' | 'kv' | 'activations'> {
  /** A model; without it `graph` is given. */
  model?: LoadOptions['model'];
  /**
   * Called when something begins that takes its time: fetching the compiler, which is a build of the wasm module of its
   * own, reading the headers, compiling. An exception that it throws is reported, and stops nothing.
   */
  onPhase?: (phase: InspectPhase) => void;
}

export type InspectPhase = 'compiler' | 'headers' | 'compile';

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

/** How to time a program's kernels. */
export interface TraceOptions {
  /** Positions that are in the caches before, which attention reads. Default: 0. */
  past?: number;
  /** Most runs that are timed, 1 to 1,000. Default: 50. */
  runs?: number;
  /** No run begins after so many milliseconds, but for the first. Default: 4,000. */
  milliseconds?: number;
  /** Ends it, before its next run. */
  signal?: AbortSignal | undefined;
  /** Called after each run. An exception that it throws is reported, and stops nothing. */
  onProgress?: (progress: { done: number; runs: number }) => void;
}

/** When the kernels of a program ran, by the GPU's clock: means of all runs, in milliseconds. */
export interface Trace {
  program: string;
  /** Positions before, and rows of a run: 1 of a step that makes a token. */
  past: number;
  rows: number;
  /** Runs that were timed. */
  runs: number;
  /** From the first begin to the last end. */
  ms: number;
  /**
   * The clock's smallest step that was seen. Browsers round it, Chromium to about 0.1 ms: then the mean of many runs is
   * what can be known of a shorter kernel, and sums of kernels are better known than one of them.
   */
  clockMs: number;
  /** Bytes on the GPU that were taken for it, and are free again. */
  bytes: number;
  /** Kernels, in the order in which they ran. */
  launches: TracedLaunch[];
}

/** A kernel's launch. */
export interface TracedLaunch {
  /** Its step's number in the program, label and operator. */
  step: number;
  label: string;
  operator: string;
  /** The kernel's name. */
  kernel: string;
  /** Begin after the first one's, and duration. */
  startMs: number;
  ms: number;
  /** What the step cannot do without: bytes moved, and operations of matrix products and attention. */
  readBytes: number;
  writtenBytes: number;
  operations: number;
}

/** Facts about a model. */
export type InspectedModel = NonNullable<SessionInfo['model']>;
