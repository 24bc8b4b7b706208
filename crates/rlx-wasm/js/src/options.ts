/** The options of `Engine.load`: which there are, and what they may be. */

import { usage } from './error.js';
import type { FileSource, LoadOptions } from './types.js';

const LOAD_KEYS: { [key in keyof Required<LoadOptions>]: true } = {
  model: true, device: true, contextLength: true, blockLength: true, conversationBytes: true, gpu: true, cache: true, makeRoom: true, integrity: true, kv: true,
  activations: true, tuning: true, threads: true, worker: true, wasm: true, grammarWasm: true, fetch: true, headers: true, onProgress: true,
  onNotice: true, onLost: true, signal: true,
};

/** Throws `usage` for an option that is unknown, or out of its range. */
export function checkOptions(options: LoadOptions): void {
  for (const key of Object.keys(options)) {
    if (!(key in LOAD_KEYS)) throw usage(`${key} is not an option of load`, key);
  }
  const oneOf = (key: 'device' | 'kv', values: readonly string[]) => {
    const value = options[key];
    if (value !== undefined && !values.includes(value)) {
      throw usage(`${key} is ${String(value)}, it must be ${values.join(' or ')}`, key);
    }
  };
  oneOf('device', ['auto', 'webgpu', 'cpu']);
  oneOf('kv', ['f32', 'f16', 'q8_0']);
  const { activations } = options;
  if (activations !== undefined && !/^(f32|int8|int16)(\/(f32|int8|int16))?$/.test(activations)) {
    throw usage(`activations is ${String(activations)}, it must be f32, int8 or int16, or two of them such as int16/int8`, 'activations');
  }
  const context = options.contextLength;
  if (context !== undefined && !(Number.isInteger(context) && context >= 16 && context <= 2 ** 24)) {
    throw usage(`contextLength is ${String(context)}, it must be a whole number from 16 to 16777216`, 'contextLength');
  }
  const { blockLength } = options;
  if (blockLength !== undefined && !(Number.isInteger(blockLength) && blockLength >= 2 && blockLength <= 4096)) {
    throw usage(`blockLength is ${String(blockLength)}, it must be a whole number from 2 to 4096`, 'blockLength');
  }
  const { conversationBytes } = options;
  if (conversationBytes !== undefined && !(Number.isInteger(conversationBytes) && conversationBytes >= 0 && conversationBytes < 2 ** 32)) {
    throw usage(`conversationBytes is ${String(conversationBytes)}, it must be a whole number from 0 to 4294967295`, 'conversationBytes');
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
  for (const key of ['fetch', 'model'] as const) {
    if (worker && !isData(options[key])) throw usage(`${key === 'fetch' ? key : 'a stream'} cannot go to a worker`, 'worker', 'use worker: false');
  }
  modelItems(options.model, 'model');
}

/** Whether an option can be sent to a worker in every browser. */
export const isData = (value: unknown): boolean => typeof value !== 'function' && !(value instanceof ReadableStream);

/** A file of a model. */
export type FileItem = FileSource;

/** What stands for a model: a file, or what stands for all of its files. */
export type ModelItem = FileItem | FileSystemDirectoryHandle;

export const isAddress = (item: unknown): item is string | URL => typeof item === 'string' || item instanceof URL;

/** Handles are known by what they do, because not every place with files has their classes. */
export const isFile = (item: unknown): item is FileItem =>
  isAddress(item) || item instanceof Blob || item instanceof ReadableStream || typeof (item as FileSystemFileHandle | null)?.getFile === 'function';

export const isDirectory = (item: unknown): item is FileSystemDirectoryHandle => (item as FileSystemHandle | null)?.kind === 'directory';

/** A name of the Hugging Face Hub. */
export const isHubName = (item: unknown): boolean => isAddress(item) && String(item).startsWith('hf:');

/** Checks a model, or its weights; answers with a list of its own. */
export function modelItems(value: unknown, at: string): ModelItem[] {
  const items: unknown[] = Array.isArray(value) ? [...value] : [value];
  const wrong = items.length === 0 || !items.every((item) => isFile(item) || isDirectory(item));
  if (wrong) throw usage(`${at} must be one address or Blob, or an array of at least one`, at, 'a File, a handle of a file or a directory, or a stream of bytes will do too');
  const whole = items.length > 1 ? items.find((item) => isDirectory(item) || isHubName(item)) : undefined;
  if (whole !== undefined) throw usage(`${isDirectory(whole) ? 'a directory' : String(whole)} is a model by itself, and cannot be one of several files`, at);
  return items as ModelItem[];
}
