/** The pipeline that draws. */

import type { Offered } from '../models/model_part.js';
import { device } from '../state/engine.js';
import type { Source } from '../state/engine.js';
import { ModelSlot, opened } from '../state/model_slot.js';
import { Drawer } from './drawer.js';
import type { DrawerInfo } from './protocol.js';

export const OFFERED: Offered = {
  source: { name: 'FLUX.2 klein 4B', model: 'hf:black-forest-labs/FLUX.2-klein-4B' },
  bytes: 16e9,
  license: 'Apache 2.0',
};

export interface Model extends DrawerInfo {
  source: Source;
  drawer: Drawer;
}

export const slot = new ModelSlot<Model>({
  async open(source, { signal, ...listening }) {
    const { thread: drawer, ...info } = await opened(new Drawer(), signal, (drawer) =>
      drawer.load(source, device, listening),
    );
    return { ...info, source, drawer };
  },
  close: ({ drawer }) => drawer.dispose(),
  instead: 'Choose the folder of a FLUX.2 klein pipeline, with model_index.json in it.',
});

export const model = slot.model;
