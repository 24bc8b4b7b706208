/** The thread of the pipeline that draws. */

import { ImageGenerator } from 'rlx-wasm';
import { modelOf, serve, whereOf } from '../state/thread_serve.js';
import type { Telling, Tells } from '../state/thread_serve.js';
import type { LoadAsk } from '../state/thread_types.js';
import type { DrawAsk, DrawerInfo, Drawn, DrawTold, Order } from './protocol.js';

let generator: ImageGenerator | undefined;
let abort: AbortController | undefined;

serve<DrawAsk>(
  async (ask, telling, tells) => {
    if ('load' in ask) return load(ask, telling);
    if ('draw' in ask) return draw(ask.draw, tells);
    abort?.abort();
    return {};
  },
  (result) => ('bitmap' in result ? [(result as Drawn).bitmap] : []),
);

async function load(ask: LoadAsk, telling: Telling): Promise<DrawerInfo> {
  generator = await ImageGenerator.load({ model: modelOf(ask), device: 'webgpu', ...telling });
  const { sizeStep, usualSteps } = generator;
  return { ...whereOf(generator.info()), sizeStep, usualSteps };
}

async function draw({ prompt, ...options }: Order, tells: Tells): Promise<Drawn> {
  abort?.abort();
  const { signal } = (abort = new AbortController());
  const tell = (told: DrawTold, transfer: Transferable[] = []) => tells(told, transfer);
  const begun = performance.now();
  const image = await generator!.generate(prompt, {
    ...options,
    signal,
    onLoad: ({ model, ...progress }) => tell({ loading: model, progress }),
    onStep: ({ step, steps, preview }) => {
      tell({ step, steps });
      if (!preview) return;
      void preview.toImageBitmap().then((bitmap) => tell({ step, steps, preview: bitmap }, [bitmap]));
    },
  });
  const milliseconds = performance.now() - begun;
  const [bitmap, png] = await Promise.all([image.toImageBitmap(), image.toBlob()]);
  return { bitmap, png, milliseconds };
}
