/** `Transcriber`: says what is said in a sound. */

import type { Running } from './bring.js';
import { RlxError, throwIfAborted, toRlxError, usage, withText } from './error.js';
import { Hearing } from './hearing.js';
import { Live } from './live.js';
import { heard, listening } from './listeners.js';
import { bringNetwork } from './network.js';
import { transcriberFiles } from './network_files.js';
import type { SessionInfo } from './session_types.js';
import { chunkOf, soundOf } from './sound_source.js';
import type { Sound } from './sound_source.js';
import { chunksOf } from './sound_stream.js';
import type { Chunks } from './sound_stream.js';
import type { HeardText, Listening, ListenOptions, SoundInput, SoundStream, SpokenWord, TranscribeOptions, TranscriberOptions, Transcript } from './sound_types.js';
import type { WasmHeard, WasmSession } from './wasm_session.js';

export class Transcriber {
  /** Samples a second that the model hears. Sounds of other rates are resampled to it. */
  readonly sampleRate: number;
  readonly #live: Live;

  /** @internal */
  constructor(running: Running<WasmSession>) {
    this.sampleRate = running.wasm.soundRate() ?? 0;
    this.#live = new Live(running, 'transcriber');
  }

  /**
   * Loads a model that hears. This fetches the wasm module's build for such networks.
   *
   * Rejects with an `RlxError`: `usage` (an option), `unsupported` (a model of another kind), else as `Engine.load`.
   */
  static async load(options: TranscriberOptions): Promise<Transcriber> {
    const { pieceSeconds = null } = options;
    return new Transcriber(await bringNetwork(heard(options), transcriberFiles(options), { hear: { pieceSeconds } }));
  }

  /**
   * Says what is said in a sound. It is heard in pieces; between them the page and other calls get their turns and
   * `signal` is checked.
   *
   * Rejects with an `RlxError`, which has the text so far: `usage` (a sound that is none), `bad_file` (a file that the
   * browser cannot decode), `unsupported` (a rate), `io`, `out_of_memory`, `device_lost`, `cancelled`, `disposed`.
   */
  async transcribe(sound: SoundInput, options: TranscribeOptions = {}): Promise<Transcript> {
    this.#live.check();
    checkOptions(options, ['onText', 'onProgress']);
    const { timestamps, signal, onText, onProgress } = options;
    const [tellText, tell] = [onText && listening(onText), onProgress && listening(onProgress)];
    throwIfAborted(signal);
    const whole = await this.#live.wait(signal, () => soundOf(sound, this.sampleRate));
    const total = whole.frames / whole.rate;
    const words: SpokenWord[] = [];
    let text = '';
    const hearing = new Hearing(this.#live, signal);
    try {
      for await (const piece of all(hearing, whole)) {
        text += piece.text;
        if (timestamps) words.push(...piece.words);
        if (piece.text) tellText?.(piece.text);
        tell?.({ seconds: piece.step === 'end' ? total : Math.min(piece.seconds, total), total });
      }
    } catch (error) {
      throw withText(toRlxError(error), text);
    } finally {
      hearing.free();
    }
    return timestamps ? { text, words } : { text };
  }

  /**
   * Listens to a sound that comes in time: yields the text of each piece as it is heard, until the sound ends. The pieces
   * are the model's (`pieceSeconds`), whatever the sizes of the chunks; no more of the sound is in memory than a piece, a
   * chunk, and what a microphone has recorded meanwhile. A `MediaStream` is silent until the visitor has pressed
   * something on the page, as browsers have it.
   *
   * ```js
   * const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
   * for await (const { text } of transcriber.listen(stream)) print(text);
   * ```
   *
   * Throws `usage` and `disposed`; iterating rejects as `transcribe`, with `io` for a source that fails, and with
   * `out_of_memory` if the model hears so slowly that minutes of a microphone wait.
   */
  listen(source: SoundStream, options: ListenOptions = {}): Listening {
    this.#live.check();
    checkOptions(options, []);
    const open = chunksOf(source);
    let chunks: Chunks | undefined;
    let stopped = false;
    const opened = () => {
      chunks = open();
      if (stopped) chunks.stop();
      return chunks;
    };
    const texts = listened(this.#live, opened, options);
    const stop = () => {
      stopped = true;
      chunks?.stop();
    };
    return {
      next: () => texts.next(),
      stop,
      return: () => {
        stop(); // what waits for a chunk would return with it only
        return texts.return(undefined);
      },
      throw: (error) => texts.throw(error),
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  /** The device and the model. */
  info(): SessionInfo {
    return this.#live.info();
  }

  /** Frees the model's memory. Calls that wait or run end with code `disposed`. Calling it again does nothing. */
  dispose(): void {
    this.#live.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function checkOptions(options: TranscribeOptions, others: readonly string[]): void {
  if (typeof options !== 'object' || options === null) throw usage('the options are no object', 'options');
  for (const key of Object.keys(options)) {
    if (!['timestamps', 'signal', ...others].includes(key)) throw usage(`${key} is not an option of this call`, key);
  }
}

async function* all(hearing: Hearing, sound: Sound): AsyncGenerator<WasmHeard, void, void> {
  yield* hearing.push(sound);
  yield* hearing.end();
}

async function* listened(live: Live, open: () => Chunks, { timestamps, signal }: ListenOptions): AsyncGenerator<HeardText, undefined, void> {
  live.check();
  throwIfAborted(signal);
  const hearing = new Hearing(live, signal);
  const chunks = open();
  const told = ({ text, seconds, words }: WasmHeard): HeardText => ({ text, seconds, ...(timestamps && { words }) });
  let text = '';
  try {
    for (let i = 0; ; i++) {
      const chunk = await live.wait(signal, () => chunks.next());
      if (chunk === undefined) break;
      for await (const piece of hearing.push(chunkOf(chunk, `chunk ${i}`))) {
        text += piece.text;
        yield told(piece);
      }
    }
    for await (const piece of hearing.end()) {
      text += piece.text;
      yield told(piece);
    }
    return undefined;
  } catch (error) {
    throw error instanceof RlxError ? withText(error, text) : error;
  } finally {
    chunks.close();
    hearing.free();
  }
}
