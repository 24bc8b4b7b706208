/** Runs where a browser renders sound: posts the samples of a sound, the mean of its channels, and null at their end. */

declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;

/** Samples of a message: 43 ms at 48,000 a second. */
const POSTED = 2048;

class Sound extends AudioWorkletProcessor {
  #samples = new Float32Array(POSTED);
  #length = 0;
  #over = false;

  constructor() {
    super();
    this.port.onmessage = () => {
      if (this.#over) return;
      this.#post();
      this.#over = true;
      this.port.postMessage(null);
    };
  }

  process([channels = []]: Float32Array[][]): boolean {
    if (this.#over) return false;
    const frames = channels[0]?.length ?? 0;
    for (let i = 0; i < frames; i++) {
      let sum = 0;
      for (const channel of channels) sum += channel[i]!;
      this.#samples[this.#length++] = sum / channels.length;
      if (this.#length === POSTED) this.#post();
    }
    return true;
  }

  #post(): void {
    if (this.#length === 0) return;
    const samples = this.#samples.slice(0, this.#length);
    this.#length = 0;
    this.port.postMessage(samples, [samples.buffer]);
  }
}

registerProcessor('rlx-sound', Sound);

export {};
