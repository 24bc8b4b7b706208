/** Sounds of a page as samples of one channel. */

import { RlxError, usage } from './error.js';
import type { Samples, SoundInput } from './sound_types.js';
import type { ErrorCode } from './types.js';

/** A sound whose samples are read a part at a time. */
export interface Sound {
  /** Samples a second. */
  rate: number;
  /** How many samples it has. */
  frames: number;
  /** The mean of its channels from one sample to before another. Throws for what is no finite number. */
  part(from: number, to: number): Float32Array;
}

const WHAT = 'give a Blob, an AudioBuffer, or { samples, sampleRate }';

/** Rates at which every browser decodes. */
const DECODED = { least: 8_000, most: 96_000 };

/** A sound of a page. `rate` is what the model hears: files are decoded to it. */
export async function soundOf(sound: SoundInput, rate: number, at = 'sound'): Promise<Sound> {
  if (typeof Blob !== 'undefined' && sound instanceof Blob) return inMemory(await decoded(sound, rate, at), at, 'bad_file', WHAT);
  return inMemory(sound as Samples | AudioBuffer, at, 'usage', WHAT);
}

/** A chunk of a stream. */
export const chunkOf = (chunk: Samples | AudioBuffer, at: string): Sound => inMemory(chunk, at, 'usage', 'give { samples, sampleRate } or an AudioBuffer');

function inMemory(sound: Samples | AudioBuffer, at: string, code: ErrorCode, hint: string): Sound {
  if (typeof sound !== 'object' || sound === null) throw usage(`${at} is no sound`, at, hint);
  const rate = sound.sampleRate;
  const channels = channelsOf(sound);
  if (!channels || !channels.every((channel) => channel instanceof Float32Array)) throw usage(`${at} is no sound`, at, hint);
  if (channels.length === 0) throw usage(`${at} has no channel`, at, 'give the samples of one or more');
  if (!Number.isSafeInteger(rate) || rate <= 0 || rate >= 2 ** 32) {
    throw usage(`${at} has ${String(rate)} samples a second, it must be a whole number from 1`, at, 'sampleRate says how many there are');
  }
  const frames = channels[0]!.length;
  const other = channels.find((channel) => channel.length !== frames);
  if (other) throw usage(`${at} has channels of ${frames} and ${other.length} samples`, at, 'give channels of one length');
  const part = (from: number, to: number) => {
    const mean = meanOf(channels, from, to);
    const wrong = mean.findIndex((x) => !Number.isFinite(x));
    if (wrong >= 0) throw new RlxError(code, `sample ${from + wrong} of ${at} is no finite number`, { at, hint: code === 'usage' ? 'give samples from -1 to 1' : 'the file is damaged' });
    return mean;
  };
  return { rate, frames, part };
}

function channelsOf(sound: Samples | AudioBuffer): readonly Float32Array[] | undefined {
  if ('getChannelData' in sound) return Array.from({ length: sound.numberOfChannels }, (_, i) => sound.getChannelData(i));
  if (sound.samples instanceof Float32Array) return [sound.samples];
  return Array.isArray(sound.samples) ? sound.samples as readonly Float32Array[] : undefined;
}

/** The mean of channels in f32, sum before quotient, as the command line has it. */
function meanOf(channels: readonly Float32Array[], from: number, to: number): Float32Array {
  const [first, ...others] = channels as [Float32Array, ...Float32Array[]];
  if (others.length === 0) return first.subarray(from, to);
  const mean = first.slice(from, to);
  for (const channel of others) {
    for (let i = 0; i < mean.length; i++) mean[i]! += channel[from + i]!;
  }
  for (let i = 0; i < mean.length; i++) mean[i]! /= channels.length;
  return mean;
}

/** A file, decoded by the browser. At the model's own rate it takes the least memory. */
async function decoded(file: Blob, rate: number, at: string): Promise<AudioBuffer> {
  if (typeof OfflineAudioContext === 'undefined') {
    throw usage(`there is nothing here to decode ${at} by`, at, 'a page decodes files, while workers, Node and Deno do not: give { samples, sampleRate }');
  }
  const name = (file as File).name ?? at;
  const context = new OfflineAudioContext(1, 1, Math.min(Math.max(rate, DECODED.least), DECODED.most));
  let bytes: ArrayBuffer;
  try {
    bytes = await file.arrayBuffer();
  } catch (cause) {
    throw new RlxError('io', 'the browser cannot read this file', { at: name, hint: 'choose it again: it may have changed or gone', cause });
  }
  try {
    return await context.decodeAudioData(bytes);
  } catch (cause) {
    throw new RlxError('bad_file', 'the browser cannot decode this file as a sound', { at: name, hint: 'give a WAV, MP3, FLAC, Ogg or another sound that it plays', cause });
  }
}
