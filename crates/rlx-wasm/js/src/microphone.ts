/** A `MediaStream` as samples: a microphone, a tab, a call. */

import { RlxError, usage } from './error.js';
import type { Chunk, Chunks } from './sound_stream.js';

/**
 * Most bytes of samples that wait to be heard: almost six minutes at 48,000 samples a second. A model that hears slower
 * than people speak falls behind for ever.
 */
const WAITING_BYTES = 64 << 20;

/** Milliseconds after which a stop no longer waits for the last samples: a suspended context gives none. */
const LAST_MS = 250;

/** Milliseconds between two looks whether the tracks have ended: no event tells of those that the page itself stops. */
const LOOK_MS = 250;

export class Microphone implements Chunks {
  readonly #context: AudioContext;
  readonly #tracks: MediaStreamTrack[];
  readonly #look: ReturnType<typeof setInterval>;
  readonly #waiting: Float32Array[] = [];
  #bytes = 0;
  #node: AudioWorkletNode | undefined;
  /** Why nothing more comes: the end, or an error. */
  #over: 'end' | RlxError | undefined;
  #wake = () => {};

  constructor(stream: MediaStream) {
    if (typeof AudioContext === 'undefined') throw usage('there is nothing here to read a MediaStream by', 'source', 'give a stream of { samples, sampleRate }');
    this.#tracks = stream.getAudioTracks();
    if (this.#tracks.length === 0) throw usage('the MediaStream has no sound', 'source', 'ask for it: getUserMedia({ audio: true })');
    // The stream's own rate: Firefox connects no other.
    this.#context = new AudioContext();
    this.#look = setInterval(() => {
      if (this.#tracks.every(({ readyState }) => readyState === 'ended')) this.stop();
    }, LOOK_MS);
    this.#open(stream).catch((cause: unknown) => {
      this.#end(cause instanceof RlxError ? cause : new RlxError('io', 'the browser does not let this page read the MediaStream', { at: 'source', cause }));
    });
  }

  async #open(stream: MediaStream): Promise<void> {
    const context = this.#context;
    // Without a user's gesture this never resolves; then no samples come.
    void context.resume().catch(() => {});
    if (!context.audioWorklet) throw new RlxError('unsupported', 'this page may not read a MediaStream', { at: 'source', hint: 'serve it by https, or from localhost' });
    // Bundlers know this form and include the file.
    const address = new URL('./sound_worklet.js', import.meta.url);
    try {
      await context.audioWorklet.addModule(address);
    } catch (cause) {
      const hint = 'serve this file of the package, and let the page\'s Content-Security-Policy allow it as a script';
      throw new RlxError('io', 'the script that reads a MediaStream does not load', { at: address.protocol === 'data:' ? 'sound_worklet.js' : address.href, hint, cause });
    }
    if (this.#over) return;
    const node = new AudioWorkletNode(context, 'rlx-sound', { numberOfInputs: 1, numberOfOutputs: 1 });
    node.port.onmessage = ({ data }: MessageEvent<Float32Array | null>) => (data ? this.#came(data) : this.#end('end'));
    node.onprocessorerror = () => this.#end(new RlxError('internal', 'the script that reads a MediaStream failed', { hint: 'this is a bug in RLX, please report it' }));
    context.createMediaStreamSource(stream).connect(node);
    // Silent; browsers run only what leads somewhere.
    node.connect(context.destination);
    this.#node = node;
  }

  async next(): Promise<Chunk | undefined> {
    for (;;) {
      const samples = this.#waiting.shift();
      if (samples) {
        this.#bytes -= samples.byteLength;
        return { samples, sampleRate: this.#context.sampleRate };
      }
      if (this.#over === 'end') return undefined;
      if (this.#over) throw this.#over;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  stop(): void {
    if (this.#over) return;
    if (!this.#node) return this.#end('end');
    this.#node.port.postMessage(null); // it answers with what it has, and with null
    setTimeout(() => this.#end('end'), LAST_MS);
  }

  close(): void {
    this.#end('end');
    this.#waiting.length = 0;
  }

  #came(samples: Float32Array): void {
    if (this.#over) return;
    if (this.#bytes + samples.byteLength > WAITING_BYTES) {
      const seconds = Math.round(this.#bytes / samples.BYTES_PER_ELEMENT / this.#context.sampleRate);
      this.#end(new RlxError('out_of_memory', `${seconds} seconds of sound wait to be heard`, { at: 'source', hint: 'the model hears slower than sound comes: use WebGPU or a smaller model' }));
      return;
    }
    this.#waiting.push(samples);
    this.#bytes += samples.byteLength;
    this.#wake();
  }

  #end(why: 'end' | RlxError): void {
    if (this.#over) return;
    this.#over = why;
    clearInterval(this.#look);
    this.#node?.disconnect();
    void this.#context.close().catch(() => {});
    this.#wake();
  }
}
