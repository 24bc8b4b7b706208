/** The options of `Engine.load`: which there are, and what they may be. */

import { usage } from './error.js';
import type { LoadOptions } from './types.js';

const LOAD_KEYS: { [key in keyof Required<LoadOptions>]: true } = {
  model: true, device: true, contextLength: true, blockLength: true, gpu: true, cache: true, makeRoom: true, integrity: true, kv: true,
  activations: true, tuning: true, threads: true, worker: true, wasmUrl: true, onProgress: true, onNotice: true, onLost: true, signal: true,
};

/** Throws `usage` for an option that is unknown, or out of its range. */
export function checkOptions(options: LoadOptions): void {
  for (const key of Object.keys(options)) {
    if (!(key in LOAD_KEYS)) throw usage(`${key} is not an option of load`, key);
  }
  const oneOf = (key: 'device' | 'kv' | 'activations', values: readonly string[]) => {
    const value = options[key];
    if (value !== undefined && !values.includes(value)) {
      throw usage(`${key} is ${String(value)}, it must be ${values.join(' or ')}`, key);
    }
  };
  oneOf('device', ['auto', 'webgpu', 'cpu']);
  oneOf('kv', ['f32', 'f16', 'q8_0']);
  oneOf('activations', ['f32', 'int8']);
  const context = options.contextLength;
  if (context !== undefined && !(Number.isInteger(context) && context >= 16 && context <= 2 ** 24)) {
    throw usage(`contextLength is ${String(context)}, it must be a whole number from 16 to 16777216`, 'contextLength');
  }
  const { blockLength } = options;
  if (blockLength !== undefined && !(Number.isInteger(blockLength) && blockLength >= 2 && blockLength <= 4096)) {
    throw usage(`blockLength is ${String(blockLength)}, it must be a whole number from 2 to 4096`, 'blockLength');
  }
  const { threads } = options;
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= 64)) {
    throw usage(`threads is ${String(threads)}, it must be a whole number from 1 to 64`, 'threads');
  }
  const { worker, gpu } = options;
  const isWorker = typeof worker === 'string' || worker instanceof URL || (typeof Worker !== 'undefined' && worker instanceof Worker);
  if (worker !== undefined && typeof worker !== 'boolean' && !isWorker) {
    throw usage(`worker is ${String(worker)}, it must be true, false, a Worker or the address of one`, 'worker');
  }
  if (worker && gpu !== undefined) throw usage('gpu cannot go to a worker', 'worker', 'use worker: false');
  if (worker && typeof Worker === 'undefined') throw usage('there are no workers here', 'worker', 'use worker: false');
  const items = modelItems(options);
  const fits = items.every((item) => typeof item === 'string' || item instanceof URL || item instanceof Blob);
  if (items.length === 0 || !fits) {
    throw usage('model must be one address or Blob, or an array of at least one', 'model');
  }
}

/** A file of a model. */
export type FileItem = string | URL | Blob;

/** A model's files as a list. */
export function modelItems({ model }: LoadOptions): FileItem[] {
  return Array.isArray(model) ? [...model] as FileItem[] : [model as FileItem];
}
