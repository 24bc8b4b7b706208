/** The model that finds things. */

import type { Offered } from '../models/model_part.js';
import { device } from '../state/engine.js';
import type { Source } from '../state/engine.js';
import { ModelSlot, opened } from '../state/model_slot.js';
import { Cutter } from './cutter.js';
import type { CutterInfo } from './protocol.js';

export const OFFERED: Offered = {
  source: { name: 'Segment Anything, base', model: 'hf:facebook/sam-vit-base' },
  bytes: 375e6,
  license: 'Apache 2.0',
};

export interface Model extends CutterInfo {
  source: Source;
  cutter: Cutter;
}

export const slot = new ModelSlot<Model>({
  async open(source, { signal, ...listening }) {
    const { thread: cutter, ...info } = await opened(new Cutter(), signal, (cutter) =>
      cutter.load(source, device, listening),
    );
    return { ...info, source, cutter };
  },
  close: ({ cutter }) => cutter.dispose(),
  instead: 'Choose a model that finds things in images: a SAM.',
});

export const model = slot.model;
