/** The interface to the module's build for networks that are no language models. */

import type { PipelineModel } from './generator_types.js';
import type { GpuHost } from './gpu_host.js';
import type { Instance } from './instance.js';
import type { ElementType, SessionInfo } from './session_types.js';
import type { Platform, WasmLoading } from './wasm.js';

/** The constructor's first argument, as JSON, besides the options of every device. */
export interface WasmSessionOptions {
  /** The options of an embedder; null for others. */
  embed: { pooling: string | null; normalise: boolean | null; maxTokens: number | null } | null;
  /** Whether vectors of images are computed. */
  features: boolean;
  /** The options of a transcriber; null for others. */
  hear: { pieceSeconds: number | null } | null;
  /** Whether masks of things in images are found. */
  segment: boolean;
  /** Whether images are made of prompts, by a pipeline. */
  imagine: boolean;
  /** Whether all models of a pipeline stay on the device. */
  resident: boolean;
}

/** The options of a session that is for nothing but its entries. */
export const noPurpose: WasmSessionOptions = { embed: null, features: false, hear: null, segment: false, imagine: false, resident: false };

/** An output of a run. `kept` is the number of an output that is kept on the device. */
export interface WasmOutput {
  name: string;
  type: ElementType;
  dims: number[];
  kept?: number;
}

/** What an inspection shows. */
export interface WasmInspection {
  model: SessionInfo['model'];
  target: string;
  programs: string[];
}

/** What is traced. */
export interface WasmTraced {
  past: number;
  rows: number;
  bytes: number;
  steps: { label: string; operator: string; read: number; written: number; operations: number }[];
}

/** A launch of a timed run; nanoseconds after the run's first. */
export interface WasmLaunch {
  step: number;
  kernel: string;
  begin: number;
  end: number;
}

/** What became known of a sound. */
export interface WasmHeard {
  /** What comes next: more `sound`, another `piece`, or nothing, at the `end`. */
  step: 'sound' | 'piece' | 'end';
  text: string;
  words: { word: string; start: number; end: number }[];
  /** Seconds that were heard so far. */
  seconds: number;
}

/** A network on a device. */
export interface WasmSession extends WasmLoading {
  /** Call after all headers in place of `open`: `WasmInspection` as JSON. */
  inspect(): Promise<string>;
  /** After `inspect`: `InspectedProgram` as JSON. */
  program(name: string): string;
  /** After `inspect`: takes memory for a program behind so many positions, to time its kernels. */
  trace(program: string, past: number): void;
  /** After `trace`, once: `WasmTraced` as JSON, when it can be timed. */
  traceReady(): Promise<string>;
  /** After `traceReady`: runs it, and answers `WasmLaunch[]` as JSON. One at a time. */
  traceRun(): Promise<string>;
  /** Frees what `trace` took. */
  endTrace(): void;
  /** `SessionEntry[]` as JSON; valid after `finishLoad`. */
  entries(): string;
  /** An input of the next `start`; the bytes are copied. */
  input(name: string, type: string, dims: Float64Array, bytes: Uint8Array): void;
  /** As `input`, for a buffer that the page made on the session's device. */
  inputBuffer(name: string, type: string, dims: Float64Array, buffer: GPUBuffer): void;
  /** As `input`, for an output that is kept on the device. */
  inputKept(name: string, kept: number): void;
  /** For vectors of images: an image as an input of the next `start`; four bytes a pixel: red, green, blue, alpha. */
  inputImage(name: string, width: number, height: number, rgba: Uint8Array): void;
  /** Runs an entry with the inputs given before; outputs of these names stay on the device. Throws if the inputs are wrong. One call at a time. */
  start(entry: string, keep: string[]): void;
  /** Starts to read an output that is kept on the device; `outputs` answers. One call at a time. */
  read(kept: number): void;
  /** `WasmOutput[]` as JSON, when the run has answered; kept outputs come last. */
  outputs(): Promise<string>;
  /** The bytes of an output that is not kept. Call it once. */
  output(i: number): Uint8Array;
  /** The number of the buffer of a kept output; none on the CPU. */
  keptBuffer(kept: number): number | undefined;
  /** Frees a kept output. */
  freeKept(kept: number): void;
  /** For an embedder: the width of a vector, and the most tokens of a text. */
  embedder(): Float64Array | undefined;
  /** Starts to compute vectors of texts. One call at a time. */
  embed(texts: string[]): void;
  /** `{ over, done, truncated }` as JSON, when a batch is done. */
  batch(): Promise<string>;
  /** After the last batch: the vectors, concatenated. */
  vectors(): Float32Array;
  /** For a transcriber: samples a second that the model hears. */
  soundRate(): number | undefined;
  /** Begins to hear a sound of one channel with so many samples a second; answers with its number. */
  hear(rate: number): number;
  /** The next samples of a sound; they are copied. */
  pushSound(sound: number, samples: Float32Array): void;
  /** The sound has no more samples. */
  endSound(sound: number): void;
  /** `WasmHeard` as JSON, when the next piece of a sound was heard. One call at a time. */
  heard(sound: number): Promise<string>;
  /** Frees a sound. */
  freeSound(sound: number): void;
  /** For a segmenter: starts to let it see an image; four bytes a pixel: red, green, blue, alpha. One call at a time. */
  look(width: number, height: number, rgba: Uint8Array): void;
  /** The image's number, as JSON, when it was seen. */
  seen(): Promise<string>;
  /**
   * Starts to find masks in an image. `points` has x, y and a label for each point; `frame` is left, top, right and
   * bottom of a box, or empty. Throws if they are wrong. One call at a time.
   */
  findMasks(seen: number, points: Float64Array, frame: Float64Array, all: boolean): void;
  /** The masks' scores, the best first, as JSON. */
  masks(): Promise<string>;
  /** For a segmenter: whether it is told by words what to find. */
  knowsWords(): boolean | undefined;
  /**
   * Starts to find every thing that words and boxes mean. `boxes` has left, top, right, bottom and a label for each
   * box. Throws if they are wrong. One call at a time.
   */
  findThings(seen: number, words: string | undefined, boxes: Float64Array, threshold: number): void;
  /** `WasmThing[]` as JSON, the surest first; their pixels are the masks of these numbers. */
  things(): Promise<string>;
  /** A mask's pixels, 0 or 1, until the next `findMasks` or `findThings`. */
  mask(i: number): Uint8Array;
  /** Frees what is kept of an image. */
  freeSeen(seen: number): void;
  /** Of a pipeline, after its texts: `WasmPipeline` as JSON. `name` is the folder's in errors. */
  openPipeline(name: string): string;
  /** Begins to load a model of the pipeline: `pushHeader` and what follows are of it. Frees those that are not needed. */
  loadPart(model: PipelineModel): void;
  /** Begins an image; the options are those of `generate` that are numbers, and `preview`. Throws if they are wrong. */
  imagine(prompt: string, optionsJson: string): void;
  /** The models that the image needs next and that are not loaded. */
  neededParts(): PipelineModel[];
  /** `WasmImagined` as JSON, when something became of the image. One call at a time. */
  imagined(): Promise<string>;
  /** The image or the preview that came last: four bytes a pixel. Call it once. */
  picture(): Uint8Array;
}

/** A pipeline. */
export interface WasmPipeline {
  /** Pixels that sizes of images are multiples of, and the most along an edge. */
  scale: number;
  longest: number;
  /** Steps where nobody says how many. */
  steps: number;
  /** Whether it takes no guidance. */
  distilled: boolean;
}

/** What became of an image: a prompt that was read (no members), a step, or all. */
export interface WasmImagined {
  step?: number;
  steps?: number;
  over?: true;
  /** Sizes of what `picture` has. */
  width?: number;
  height?: number;
}

/** A thing that was found: left, top, right and bottom of its box. */
export interface WasmThing {
  score: number;
  box: [number, number, number, number];
}

/** The wasm module's part of `SessionInfo`. */
export type WasmSessionInfo = SessionInfo;

/** The part of the module that sessions use. */
export interface GraphsModule {
  create(optionsJson: string, platform: Platform, gpu: GpuHost | null): WasmSession;
}

/** A session in an instance of the module. `onLeave` is called when it leaves it as another may find it. */
export function sessionIn(instance: Instance, make: () => WasmSession & { free(): void }, onLeave: () => void): WasmSession {
  const { call, wait, ...ends } = instance.bind(make, onLeave, 'the session was disposed');
  return {
    text: (name, at, bytes) => call((s) => s.text(name, at, bytes)),
    index: (at, bytes) => call((s) => s.index(at, bytes)),
    pushHeader: (shard, name, fileBytes, chunk) => call((s) => s.pushHeader(shard, name, fileBytes, chunk)),
    open: () => wait((s) => s.open()),
    inspect: () => wait((s) => s.inspect()),
    program: (name) => call((s) => s.program(name)),
    trace: (program, past) => call((s) => s.trace(program, past)),
    traceReady: () => wait((s) => s.traceReady()),
    traceRun: () => wait((s) => s.traceRun()),
    endTrace: () => call((s) => s.endTrace()),
    placements: (shard) => call((s) => s.placements(shard)),
    put: (shard, fileOffset, bytes) => call((s) => s.put(shard, fileOffset, bytes)),
    finishLoad: () => wait((s) => s.finishLoad()),
    entries: () => call((s) => s.entries()),
    input: (name, type, dims, bytes) => call((s) => s.input(name, type, dims, bytes)),
    inputBuffer: (name, type, dims, buffer) => call((s) => s.inputBuffer(name, type, dims, buffer)),
    inputKept: (name, kept) => call((s) => s.inputKept(name, kept)),
    inputImage: (name, width, height, rgba) => call((s) => s.inputImage(name, width, height, rgba)),
    start: (entry, keep) => call((s) => s.start(entry, keep)),
    read: (kept) => call((s) => s.read(kept)),
    keptBuffer: (kept) => call((s) => s.keptBuffer(kept)),
    freeKept: (kept) => call((s) => s.freeKept(kept)),
    outputs: () => wait((s) => s.outputs()),
    output: (i) => call((s) => s.output(i)),
    embedder: () => call((s) => s.embedder()),
    embed: (texts) => call((s) => s.embed(texts)),
    batch: () => wait((s) => s.batch()),
    vectors: () => call((s) => s.vectors()),
    soundRate: () => call((s) => s.soundRate()),
    hear: (rate) => call((s) => s.hear(rate)),
    pushSound: (sound, samples) => call((s) => s.pushSound(sound, samples)),
    endSound: (sound) => call((s) => s.endSound(sound)),
    heard: (sound) => wait((s) => s.heard(sound)),
    freeSound: (sound) => call((s) => s.freeSound(sound)),
    look: (width, height, rgba) => call((s) => s.look(width, height, rgba)),
    seen: () => wait((s) => s.seen()),
    findMasks: (seen, points, frame, all) => call((s) => s.findMasks(seen, points, frame, all)),
    masks: () => wait((s) => s.masks()),
    knowsWords: () => call((s) => s.knowsWords()),
    findThings: (seen, words, boxes, threshold) => call((s) => s.findThings(seen, words, boxes, threshold)),
    things: () => wait((s) => s.things()),
    mask: (i) => call((s) => s.mask(i)),
    freeSeen: (seen) => call((s) => s.freeSeen(seen)),
    openPipeline: (name) => call((s) => s.openPipeline(name)),
    loadPart: (model) => call((s) => s.loadPart(model)),
    imagine: (prompt, optionsJson) => call((s) => s.imagine(prompt, optionsJson)),
    neededParts: () => call((s) => s.neededParts()),
    imagined: () => wait((s) => s.imagined()),
    picture: () => call((s) => s.picture()),
    info: () => call((s) => s.info()),
    ...ends,
  };
}
