/** The thread of the encoder, so that the page is never busy with it. */

import { Embedder, RlxError } from 'rlx-wasm';
import type { Ask, EncoderInfo, Tell, Vectors } from './protocol.js';

let embedder: Embedder | undefined;

const tell = (message: Tell, transfer: Transferable[] = []) => postMessage(message, { transfer });

addEventListener('message', ({ data }: MessageEvent<Ask>) => {
  const { id } = data;
  const work = 'load' in data ? load(id, data.load) : embed(data.embed);
  work.then(
    (result) => tell({ id, result }, 'vectors' in result ? [result.vectors.buffer] : []),
    (error: unknown) => {
      const { code, what, at, hint } =
        error instanceof RlxError ? error : { code: 'internal' as const, what: String(error), at: '', hint: '' };
      tell({ id, fault: { code, what, at, hint } });
    },
  );
});

type Load = Extract<Ask, { load: unknown }>['load'];

async function load(id: number, { model, paths, device }: Load): Promise<EncoderInfo> {
  // Not every browser tells another thread where in its folder a file is.
  if (Array.isArray(model))
    model.forEach((file: unknown, i) => {
      if (file instanceof File && paths[i]) Object.defineProperty(file, 'webkitRelativePath', { value: paths[i] });
    });
  embedder = await Embedder.load({
    model,
    device,
    normalise: true,
    onProgress: (progress) => tell({ id, progress }),
    onNotice: ({ message }) => tell({ id, notice: message }),
  });
  const { width, maxTokens } = embedder;
  const { device: where, adapter, fallbackReason } = embedder.info();
  return { width, maxTokens, device: where, adapter, fallbackReason };
}

async function embed(texts: readonly string[]): Promise<Vectors> {
  const { width } = embedder!;
  let truncated = 0;
  const rows = await embedder!.embed(texts, { onProgress: (progress) => (truncated = progress.truncated) });
  const vectors = new Float32Array(rows.length * width);
  rows.forEach((row, i) => vectors.set(row, i * width));
  return { vectors, truncated };
}
