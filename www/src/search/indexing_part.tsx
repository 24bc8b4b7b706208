/** The indexing that runs, and what is kept of it. */

import { bytes, duration, plural } from '../ui/format.js';
import { chosen, forgetAll, goOn, index, indexFailure, indexing, kept, reading, stopIndexing } from './state.js';
import { reader } from './model.js';

export function IndexingPart() {
  return (
    <>
      {indexing.value ? <Running /> : <Rest />}
      {indexFailure.value && (
        <p class="fault" role="alert">
          <strong>{indexFailure.value.what}</strong> {indexFailure.value.hint}
        </p>
      )}
      <p class="hidden" role="status">
        {heard()}
      </p>
    </>
  );
}

/** What is said of it: its quarters, and its end. */
function heard(): string {
  if (reading.value > 0) return '';
  if (indexing.value) return `Reading passages: ${Math.floor(indexing.value.part * 4) * 25} % done`;
  return index.value && index.value.done === index.value.passages.length ? 'All passages can be searched' : '';
}

function Running() {
  const { part, seconds } = indexing.value!;
  const { done = 0, passages = [] } = index.value ?? {};
  return (
    <section id="search-indexing" aria-label="Reading passages">
      <progress max={1} value={part} aria-label="Passages read" />
      <div class="row">
        <p class="hint grow">
          {done.toLocaleString('en')} of {plural(passages.length, 'passage')} can be searched
          {seconds !== undefined && `, ${duration(seconds)} left`}
        </p>
        <button id="search-stop" type="button" onClick={stopIndexing}>
          Stop
        </button>
      </div>
    </section>
  );
}

function Rest() {
  const all = index.value;
  const stopped = all !== undefined && all.done < all.passages.length;
  return (
    <div class="row">
      {stopped && (
        <>
          <p class="hint" id="search-stopped">
            Stopped: {all.done.toLocaleString('en')} of {plural(all.passages.length, 'passage')} can be searched.
          </p>
          <button id="search-go-on" type="button" onClick={goOn}>
            Go on
          </button>
        </>
      )}
      {!all && chosen.value && chosen.value.files.length > 0 && !reader.value && (
        <p class="hint">Load a model, and your files can be searched.</p>
      )}
      {kept.value > 0 && (
        <p class="hint">
          What the model made of files is kept in this browser ({bytes(kept.value)}), so that only what changes is read
          again.{' '}
          <button id="search-forget" type="button" class="quiet link" onClick={() => void forgetAll()}>
            Forget them
          </button>
        </p>
      )}
    </div>
  );
}
