/** The load that runs: bytes, rate and time left, for all files and for each. */

import { cancel, loaded, loading, pause, resume } from '../state/engine.js';
import type { Loading } from '../state/engine.js';
import { bytes, duration } from '../ui/format.js';

/** What is said instead of how many bytes have come. */
const TASKS: { [phase: string]: string | undefined } = {
  compile: 'Compiling the model for this device',
  check: 'Comparing this GPU with the CPU, the first time only',
  ready: 'Ready',
};

export function Progress() {
  const load = loading.value;
  if (!load) return null;
  const { progress, files, state, source } = load;
  return (
    <section id="loading" class="column" aria-label={`Loading ${source.name}`}>
      <div class="row">
        <p id="loading-text" role="status">
          {text(load)}
        </p>
        {state === 'paused' ? (
          <button type="button" id="resume" onClick={resume}>
            Resume
          </button>
        ) : (
          <button type="button" id="pause" onClick={pause}>
            Pause
          </button>
        )}
        <button type="button" id="cancel" onClick={cancel}>
          Cancel
        </button>
      </div>
      <progress
        id="progress"
        max={1}
        aria-label="Bytes loaded"
        value={progress?.totalBytes ? progress.loadedBytes / progress.totalBytes : undefined}
      />
      {files.size > 1 && (
        <ul class="files" aria-label="Files">
          {[...files].map(([name, file]) => (
            <li key={name}>
              <bdi title={name}>
                {name
                  .replace(/[?#].*/, '')
                  .split('/')
                  .pop()}
              </bdi>
              <span>
                {bytes(file.loadedBytes)}
                {file.totalBytes !== undefined && ` of ${bytes(file.totalBytes)}`}
              </span>
              <progress
                max={1}
                aria-label={name}
                value={file.totalBytes ? file.loadedBytes / file.totalBytes : undefined}
              />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function text({ state, source, progress }: Loading): string {
  if (state === 'checking')
    return `Checking whether ${source.name} fits${loaded.value ? `, while ${loaded.value.source.name} stays loaded` : ''}`;
  if (!progress) return state === 'paused' ? 'Paused' : 'Starting';
  const { phase, loadedBytes, totalBytes, from, bytesPerSecond } = progress;
  const amount = `${bytes(loadedBytes)}${totalBytes ? ` of ${bytes(totalBytes)}` : ''}`;
  if (state === 'paused') return `Paused at ${amount}. What has come is kept where the browser stores models.`;
  const task = TASKS[phase];
  if (task) return task;
  const where = from === 'cache' ? ' from this browser’s storage' : from === 'file' ? ' from the file' : '';
  const rate = bytesPerSecond ? ` · ${bytes(bytesPerSecond)}/s` : '';
  const left = bytesPerSecond && totalBytes ? ` · ${duration((totalBytes - loadedBytes) / bytesPerSecond)} left` : '';
  return `${amount}${where}${rate}${left}`;
}
