/** The model that reads for the search. */

import type { Offered } from '../models/model_part.js';
import { device } from '../state/engine.js';
import type { Source } from '../state/engine.js';
import { ModelSlot, opened } from '../state/model_slot.js';
import { Encoder } from './encoder.js';
import type { EncoderInfo } from './protocol.js';
import { hash } from './store.js';

export const OFFERED: Offered = {
  source: { name: 'all-MiniLM-L6-v2', model: 'hf:sentence-transformers/all-MiniLM-L6-v2' },
  bytes: 91e6,
  license: 'Apache 2.0',
};

export interface Reader extends EncoderInfo {
  source: Source;
  encoder: Encoder;
  /** Of the vector that it makes of one sentence, so that vectors of another model are not taken for its own. */
  key: string | undefined;
}

export const slot = new ModelSlot<Reader>({
  async open(source, { signal, ...listening }) {
    const { thread: encoder, ...about } = await opened(new Encoder(), signal, async (encoder) => {
      const info = await encoder.load(source, device, listening);
      const { vectors } = await encoder.embed(['A quick brown fox jumps over the lazy dog.']);
      return { ...info, key: await hash(vectors) };
    });
    return { ...about, source, encoder };
  },
  close: ({ encoder }) => encoder.dispose(),
  instead: 'Choose an encoder, such as a BERT: a model for chats makes no vectors.',
});

export const reader = slot.model;
