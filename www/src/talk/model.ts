/** The model that hears. */

import { Transcriber } from 'rlx-wasm';
import type { SessionInfo } from 'rlx-wasm';
import type { Offered } from '../models/model_part.js';
import { device } from '../state/engine.js';
import type { Source } from '../state/engine.js';
import { ModelSlot } from '../state/model_slot.js';

export const OFFERED: Offered = {
  source: { name: 'wav2vec2-base-960h', model: 'hf:facebook/wav2vec2-base-960h' },
  bytes: 378e6,
  license: 'Apache 2.0',
};

/** Text of a microphone comes every four seconds: two thirds of a piece. */
const PIECE_SECONDS = 6;

export interface Listener {
  source: Source;
  transcriber: Transcriber;
  info: SessionInfo;
}

export const slot = new ModelSlot<Listener>({
  async open(source, { signal, onProgress, onNotice }) {
    const transcriber = await Transcriber.load({
      model: source.model,
      device,
      pieceSeconds: PIECE_SECONDS,
      signal,
      onProgress,
      onNotice: ({ message }) => onNotice(message),
    });
    return { source, transcriber, info: transcriber.info() };
  },
  close: ({ transcriber }) => transcriber.dispose(),
  instead: 'Choose a wav2vec 2.0 that was trained to write letters.',
});

export const listener = slot.model;
