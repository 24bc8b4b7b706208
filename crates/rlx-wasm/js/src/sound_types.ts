/** The public types of `Transcriber`. */

import type { PageAudioBuffer, PageMediaStream } from './dom_types.js';
import type { NetworkOptions } from './session_types.js';
import type { FileSource, ModelSource } from './types.js';

/** Options of `Transcriber.load`. */
export interface TranscriberOptions extends NetworkOptions {
  /**
   * A model that hears (wav2vec 2.0 with letters, as `facebook/wav2vec2-base-960h`): the address of a folder, with `/` at
   * its end, that has `config.json`, `model.safetensors`, `vocab.json` and, where its maker has them,
   * `preprocessor_config.json` or `processor_config.json`, `tokenizer_config.json`, `special_tokens_map.json` and
   * `added_tokens.json`; or a `.safetensors` file with `config`, `vocab`, and those of the options below that it has.
   */
  model: ModelSource;
  /** The `config.json` of a safetensors file. */
  config?: FileSource;
  /** The `vocab.json` of a safetensors file: the letters that the model's numbers stand for. */
  vocab?: FileSource;
  /** The `preprocessor_config.json` of a safetensors file. Without it: 16,000 samples a second, mean 0 and variance 1. */
  preprocessor?: FileSource;
  /** The `tokenizer_config.json` of a safetensors file. */
  tokenizerConfig?: FileSource;
  /** The `special_tokens_map.json` of a safetensors file. */
  specialTokens?: FileSource;
  /** The `added_tokens.json` of a safetensors file. */
  addedTokens?: FileSource;
  /**
   * Seconds of a piece: longer sounds are heard in pieces, of which each has a sixth at either end in common with its
   * neighbours. Default 30. With shorter ones text comes earlier (6 is good for a microphone: it comes every 4 seconds),
   * and memory is less; words at their ends are heard worse.
   */
  pieceSeconds?: number;
}

/** Samples in memory. */
export interface Samples {
  /**
   * One channel, or each channel's samples, all of one length, of which the mean is heard; usually from -1 to 1. They are
   * read while they are heard, so do not change them until then.
   */
  samples: Float32Array | readonly Float32Array[];
  /** Samples a second of each channel: 4,000 to 384,000. The sound is resampled to what the model hears. */
  sampleRate: number;
}

/**
 * A sound: a file (`Blob`) of any kind that the browser plays, an `AudioBuffer`, or samples in memory. A file is decoded
 * whole, by the browser's `decodeAudioData`, which workers, Node and Deno do not have: there, and for hours of sound, give
 * samples, or `listen` to a stream of them.
 */
export type SoundInput = Blob | PageAudioBuffer | Samples;

/**
 * A sound that comes in time: a stream or an async iterable of samples, all of one rate, in chunks of any sizes; or a
 * `MediaStream`, such as a microphone's or a tab's, of which the first track with sound is heard.
 */
export type SoundStream = ReadableStream<Samples | PageAudioBuffer> | AsyncIterable<Samples | PageAudioBuffer> | PageMediaStream;

/** A word, and when it is said, in seconds from the sound's start. */
export interface SpokenWord {
  word: string;
  start: number;
  end: number;
}

/** What is said in a sound. */
export interface Transcript {
  text: string;
  /** With `timestamps`. */
  words?: SpokenWord[];
}

/** What became known by one more piece of a sound. */
export interface HeardText {
  /** The texts of all pieces, one behind the other, are the whole text. It may be empty: nothing is said, or a word goes on. */
  text: string;
  /** Seconds of the sound that were heard so far. */
  seconds: number;
  /** With `timestamps`: the words that ended since the last piece. */
  words?: SpokenWord[];
}

/** Options of `transcribe` and `listen`. */
export interface ListenOptions {
  /** Whether to tell words and when they are said. Default false. */
  timestamps?: boolean;
  /** Aborting it rejects with code `cancelled`. The piece that is being heard ends before the next call begins. */
  signal?: AbortSignal;
}

/** Options of `transcribe`. */
export interface TranscribeOptions extends ListenOptions {
  /** Called with text as it becomes known: all of it, one behind the other, is the whole text. */
  onText?: (text: string) => void;
  /** Called after each piece: seconds that were heard, and those of the whole sound. */
  onProgress?: (progress: { seconds: number; total: number }) => void;
}

/** Text of a sound that comes in time. Iterating it opens the sound; leaving the loop closes it. */
export interface Listening extends AsyncIterableIterator<HeardText> {
  /** Hears what has come, and ends. A microphone's tracks go on: stop them to end recording. */
  stop(): void;
}
