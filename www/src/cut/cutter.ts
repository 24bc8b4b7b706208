/** A model that finds things in photos, in a thread of its own. */

import type { DeviceChoice, FindPrompt, MaskPrompt } from 'rlx-wasm';
import type { Source } from '../state/engine.js';
import { ModelThread } from '../state/thread.js';
import type { Listening } from '../state/thread.js';
import type { CutAsk, CutterInfo, Found, Looked } from './protocol.js';

export class Cutter extends ModelThread<CutAsk> {
  constructor() {
    super(new Worker(new URL('./cutter_worker.ts', import.meta.url), { type: 'module' }));
  }

  load(source: Source, device: DeviceChoice, listening: Listening): Promise<CutterInfo> {
    return this.loaded<CutterInfo>(source, device, listening);
  }

  /** Looks at a photo in place of the one before. The bitmap is given away. */
  look(photo: ImageBitmap): Promise<Looked> {
    return this.ask<Looked>({ look: photo }, [photo]);
  }

  /** Finds what a prompt shows in the photo that was looked at last. */
  find(prompt: MaskPrompt): Promise<Found> {
    return this.ask<Found>({ prompt });
  }

  /** Finds every thing that words mean, or that is as those in boxes. */
  findAll(question: FindPrompt): Promise<Found> {
    return this.ask<Found>({ question });
  }
}
