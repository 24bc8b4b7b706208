/** What the model runs on. */

import { away, loaded, loading, recovering } from '../state/engine.js';
import { bytes } from '../ui/format.js';
import { ViewLinks } from '../views.js';

export function Status() {
  return (
    <footer class="column">
      <span id="status" role="status" aria-label="Model and device">
        {text()}
      </span>
      <ViewLinks />
    </footer>
  );
}

function text(): string {
  if (recovering.value) return 'Loading again';
  if (!loaded.value && away.value) return 'The model is put aside until the benchmark is done';
  if (!loaded.value) return loading.value ? 'Loading' : 'No model loaded';
  const info = loaded.value.engine.info();
  return [
    info.model.name,
    info.device === 'webgpu' ? `WebGPU: ${info.adapter}` : `CPU: ${info.adapter}`,
    info.fallbackReason && `not WebGPU, because ${info.fallbackReason}`,
    `${bytes(info.weightBytes)} of weights`,
  ]
    .filter(Boolean)
    .join(' · ');
}
