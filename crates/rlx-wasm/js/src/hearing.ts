/** A sound that becomes text, piece by piece. Between pieces other calls have their turns. */

import { usage } from './error.js';
import type { Live } from './live.js';
import { platform } from './platform.js';
import type { Sound } from './sound_source.js';
import type { WasmHeard, WasmSession } from './wasm_session.js';

/** Samples that are given at a time: what is not heard yet stays in memory. */
const PART = 1 << 16;

export class Hearing {
  #sound: { id: number; rate: number } | undefined;

  constructor(private readonly live: Live, private readonly signal: AbortSignal | undefined) {}

  /** Hears a part of the sound; yields each piece that is complete by it. */
  async *push(part: Sound): AsyncGenerator<WasmHeard, void, void> {
    const { rate } = part;
    this.#sound ??= { id: await this.live.call(this.signal, async (wasm) => wasm.hear(rate)), rate };
    const { id, rate: first } = this.#sound;
    if (rate !== first) throw usage(`the sound has ${first} samples a second at first, and then ${rate}`, 'sampleRate', 'give chunks of one rate');
    for (let from = 0; from < part.frames; from += PART) {
      const samples = part.part(from, Math.min(from + PART, part.frames));
      yield* this.#heard(id, (wasm) => wasm.pushSound(id, samples));
    }
  }

  /** Hears the rest; yields the pieces that are left. */
  async *end(): AsyncGenerator<WasmHeard, void, void> {
    const sound = this.#sound;
    if (sound) yield* this.#heard(sound.id, (wasm) => wasm.endSound(sound.id));
  }

  /** Frees the sound, when a call that runs has ended. */
  free(): void {
    const sound = this.#sound;
    // A disposed model has freed it.
    if (sound) void this.live.call(undefined, async (wasm) => wasm.freeSound(sound.id)).catch(() => {});
  }

  async *#heard(id: number, give: (wasm: WasmSession) => void): AsyncGenerator<WasmHeard, void, void> {
    for (let given = false; ; given = true) {
      const heard = await this.live.call(this.signal, async (wasm) => {
        if (!given) give(wasm);
        return JSON.parse(await wasm.heard(id)) as WasmHeard;
      });
      if (heard.step === 'sound') return;
      yield heard;
      if (heard.step === 'end') return;
      await platform.yieldToPage();
    }
  }
}
