/** The side of a model's thread: answers what the page asks. */

import { RlxError } from 'rlx-wasm';
import type { LoadProgress } from 'rlx-wasm';
import type { LoadAsk, Tell, Where } from './thread_types.js';

/** What a load tells on its way, as the package takes it. */
export interface Telling {
  onProgress: (progress: LoadProgress) => void;
  onNotice: (notice: { message: string }) => void;
}

/** Tells something of an ask before its answer. */
export type Tells = (told: unknown, transfer?: Transferable[]) => void;

/** Answers every ask by `work`; `moved` is what of a result is given away rather than copied. */
export function serve<Ask extends object>(
  work: (ask: Ask | LoadAsk, telling: Telling, tells: Tells) => Promise<object>,
  moved: (result: object) => Transferable[] = () => [],
): void {
  const tell = (message: Tell, transfer: Transferable[] = []) => postMessage(message, { transfer });
  addEventListener('message', ({ data }: MessageEvent<{ id: number } & (Ask | LoadAsk)>) => {
    const { id, ...ask } = data;
    const telling: Telling = {
      onProgress: (progress) => tell({ id, progress }),
      onNotice: ({ message }) => tell({ id, notice: message }),
    };
    work(ask as Ask | LoadAsk, telling, (told, transfer) => tell({ id, told }, transfer)).then(
      (result) => tell({ id, result }, moved(result)),
      (error: unknown) => {
        const { code, what, at, hint } =
          error instanceof RlxError ? error : { code: 'internal' as const, what: String(error), at: '', hint: '' };
        tell({ id, fault: { code, what, at, hint } });
      },
    );
  });
}

/** The model of an ask, with what its files need to be found. */
export function modelOf({ load: { model, paths } }: LoadAsk): LoadAsk['load']['model'] {
  // Not every browser tells another thread where in its folder a file is.
  if (Array.isArray(model))
    model.forEach((file: unknown, i) => {
      if (file instanceof File && paths[i]) Object.defineProperty(file, 'webkitRelativePath', { value: paths[i] });
    });
  return model;
}

/** Where a loaded model runs. */
export const whereOf = ({ device, adapter, fallbackReason }: Where): Where => ({ device, adapter, fallbackReason });
