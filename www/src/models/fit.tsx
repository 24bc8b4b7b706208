/** Whether a model fits this device, from its header alone. Asked when somebody wants to know. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { Engine } from 'rlx-wasm';
import type { Estimate } from 'rlx-wasm';
import { device, failureOf } from '../state/engine.js';
import type { Failure, Source } from '../state/engine.js';
import { bytes } from '../ui/format.js';

type Answer = { asking: true } | { estimate: Estimate } | { failure: Failure };

export function Fit({ model, disabled = false }: { model: Source['model']; disabled?: boolean }) {
  const [answer, setAnswer] = useState<Answer>();
  const abort = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  const ask = async () => {
    const own = (abort.current = new AbortController());
    setAnswer({ asking: true });
    try {
      const estimate = await Engine.estimate({ model, device, signal: own.signal });
      if (!own.signal.aborted) setAnswer({ estimate });
    } catch (error) {
      if (!own.signal.aborted) setAnswer({ failure: failureOf(error) });
    }
  };
  if (!answer)
    return (
      <button type="button" disabled={disabled} onClick={() => void ask()}>
        Does it fit?
      </button>
    );
  if ('asking' in answer)
    return (
      <p class="fit" role="status">
        Reading its header…
      </p>
    );
  if ('failure' in answer)
    return (
      <p class="fit fault" role="status">
        {[answer.failure.what, answer.failure.hint].filter(Boolean).join('; ')}
      </p>
    );
  return (
    <p class={`fit${answer.estimate.fits ? '' : ' fault'}`} role="status">
      {words(answer.estimate)}
    </p>
  );
}

function words({ fits, refusal, fileBytes, memoryBytes, contextLength, device: where }: Estimate): string {
  if (!fits) return `It does not fit: ${refusal ? failureOf(refusal).what : 'there is too little memory'}.`;
  const files = fileBytes === null ? 'files of unknown size' : `${bytes(fileBytes)} of files`;
  return `It fits: ${files}, ${bytes(memoryBytes)} of memory for ${contextLength.toLocaleString('en')} tokens, on ${where === 'webgpu' ? 'the GPU' : 'the CPU'}.`;
}
