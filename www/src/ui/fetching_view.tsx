/** A model of a view that is being loaded, with a button that ends the load. */

import type { LoadProgress } from 'rlx-wasm';
import { bytes, duration } from './format.js';

interface Properties {
  name: string;
  progress: LoadProgress | undefined;
  onStop: () => void;
}

export function FetchingView({ name, progress, onStop }: Properties) {
  const { loadedBytes = 0, totalBytes, bytesPerSecond, phase } = progress ?? {};
  const left = bytesPerSecond && totalBytes ? `, ${duration((totalBytes - loadedBytes) / bytesPerSecond)} left` : '';
  return (
    <>
      <p role="status">
        Loading <bdi>{name}</bdi>
      </p>
      <progress max={1} aria-label="Bytes loaded" value={totalBytes ? loadedBytes / totalBytes : undefined} />
      <div class="row">
        <p class="hint grow">
          {phase === 'weights' || phase === 'headers'
            ? `${bytes(loadedBytes)}${totalBytes ? ` of ${bytes(totalBytes)}` : ''}${left}`
            : 'Getting ready'}
        </p>
        <button type="button" onClick={onStop}>
          Stop
        </button>
      </div>
    </>
  );
}
