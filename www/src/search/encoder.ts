/** A model that makes vectors of texts, in a thread of its own. */

import type { DeviceChoice } from 'rlx-wasm';
import type { Source } from '../state/engine.js';
import { ModelThread } from '../state/thread.js';
import type { Listening } from '../state/thread.js';
import type { EmbedAsk, EncoderInfo, Vectors } from './protocol.js';

export class Encoder extends ModelThread<EmbedAsk> {
  constructor() {
    super(new Worker(new URL('./encoder_worker.ts', import.meta.url), { type: 'module' }));
  }

  load(source: Source, device: DeviceChoice, listening: Listening): Promise<EncoderInfo> {
    return this.loaded<EncoderInfo>(source, device, listening);
  }

  /** Vectors of length 1. Calls run one after another. */
  embed(texts: readonly string[]): Promise<Vectors> {
    return this.ask<Vectors>({ embed: texts });
  }
}
