/** How fast this device is: the page's model on every executor, beside what memory allows; and the device's kernels. */

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import licence from '@wllama/wllama/LICENCE?raw';
import { loaded, loading } from '../state/engine.js';
import { busy } from '../state/answer.js';
import { FailureView } from '../ui/failure_view.js';
import { lazy } from '../ui/lazy.js';
import { ViewFrame } from '../ui/view_frame.js';
import { Progress } from '../models/progress.js';
import { Device } from './device.js';
import { WLLAMA } from './peer.js';
import { Results } from './results.js';
import { failed, peers, result, running, start, stop, stopped } from './state.js';
import '../styles/inspect.css';
import '../styles/benchmark.css';

const ModelsDialog = lazy(async () => (await import('../models/models_dialog.js')).default);
const choosing = signal(false);

export default function BenchmarkView() {
  // The view may be shown before its result is seen: only one that comes meanwhile gets the focus.
  const before = useRef(result.value);
  useEffect(() => {
    if (result.value && result.value !== before.current) document.getElementById('benchmark-results')?.focus();
    before.current = result.value;
  }, [result.value]);
  return (
    <ViewFrame name="benchmark" heading="How fast is this device?">
      <p>
        The model answers on each executor that this browser has: reading prompts, then writing. Keep this page in front
        until it is done. {!running.value && 'The chat’s model is put aside meanwhile, and loaded again afterwards.'}
      </p>
      {running.value ? <Running /> : <Begin />}
      {!running.value && <Progress />}
      {!running.value && <FailureView />}
      {stopped.value && (
        <p role="status" class="hint">
          Stopped. Nothing of this run was kept.
        </p>
      )}
      {failed.value && (
        <p id="benchmark-error" class="fault" role="alert">
          <strong>{failed.value.what}</strong> {failed.value.hint}
        </p>
      )}
      {result.value && !running.value && <Results benchmark={result.value} />}
      <Device />
      {choosing.value && <ModelsDialog onClose={() => (choosing.value = false)} />}
    </ViewFrame>
  );
}

function Begin() {
  const name = loaded.value?.source.name ?? loading.value?.source.name;
  return (
    <div class="begin">
      <div class="row">
        <button
          id="benchmark"
          type="button"
          class="primary"
          disabled={!loaded.value || busy.value}
          onClick={() => void start()}
        >
          Measure {loaded.value ? <bdi>{loaded.value.source.name}</bdi> : 'a model'}
        </button>
        <button type="button" aria-haspopup="dialog" onClick={() => (choosing.value = true)}>
          {name ? 'Another model' : 'Choose a model'}
        </button>
      </div>
      {busy.value && <p class="hint">An answer is being written: it can begin when that is done.</p>}
      <label class="check">
        <input
          id="peers"
          type="checkbox"
          checked={peers.value}
          onChange={(event) => (peers.value = event.currentTarget.checked)}
        />
        <span>
          Compare with wllama
          <small>
            llama.cpp in wasm, version {WLLAMA}, on the processor with the same file and texts. 3 MB of it are fetched
            from this site, and the model’s files once more from where they are.
          </small>
        </span>
      </label>
      <details class="share">
        <summary>wllama’s licence</summary>
        <pre tabIndex={0} aria-label="wllama’s licence">
          {licence}
        </pre>
      </details>
    </div>
  );
}

function Running() {
  const { done, what } = running.value!;
  return (
    <div class="working">
      <progress id="benchmark-progress" max={1} value={done} aria-label="Share that is done" />
      <div class="row">
        <p role="status" class="hint">
          {what}
        </p>
        <button id="benchmark-stop" type="button" onClick={stop}>
          Stop
        </button>
      </div>
    </div>
  );
}
