/** The models that this browser keeps: what they take, and a button to free each. */

import { useEffect, useState } from 'preact/hooks';
import { Engine } from 'rlx-wasm';
import type { StorageUsage, StoredModel } from 'rlx-wasm';
import { BUILT_IN, nameOf } from '../state/built_in.js';
import { failureOf } from '../state/engine.js';
import type { Source } from '../state/engine.js';
import { bytes, when } from '../ui/format.js';

interface Stored {
  models: readonly StoredModel[];
  usage: StorageUsage;
}

export function StoredModels({ onChoose }: { onChoose: (source: Source) => void }) {
  const [stored, setStored] = useState<Stored>();
  const [fault, setFault] = useState<string>();
  const refresh = async (work?: Promise<unknown>) => {
    try {
      await work;
      const [models, usage] = await Promise.all([Engine.models.list(), Engine.models.usage()]);
      setStored({ models, usage });
    } catch (error) {
      setFault(failureOf(error).what);
    }
  };
  useEffect(() => void refresh(), []);
  return (
    <section aria-labelledby="models-stored">
      <h3 id="models-stored">Stored in this browser</h3>
      {fault && (
        <p class="fault" role="alert">
          {fault}
        </p>
      )}
      {stored && <Usage stored={stored} onPersist={() => void refresh(Engine.models.persist())} />}
      <ul id="stored" class="models">
        {stored?.models.map((model) => (
          <li key={model.id}>
            <div>
              <strong>
                <bdi>{sourceOf(model).name}</bdi>
              </strong>
              <small>
                <bdi>{model.id}</bdi>
              </small>
              <small>
                {bytes(model.bytes)}
                {!model.complete && ', not whole yet'} · used {when(model.lastUsed.getTime())}
              </small>
            </div>
            <div class="row">
              <button
                type="button"
                aria-label={`Load ${sourceOf(model).name} from storage`}
                onClick={() => onChoose(sourceOf(model))}
              >
                {model.complete ? 'Load' : 'Go on'}
              </button>
              <button
                type="button"
                aria-label={`Free ${sourceOf(model).name}`}
                onClick={() => void refresh(Engine.models.delete(model.id))}
              >
                Free {bytes(model.bytes)}
              </button>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Usage({ stored: { models, usage }, onPersist }: { stored: Stored; onPersist: () => void }) {
  if (models.length === 0) return <p class="hint">No model is stored.</p>;
  const room = usage.quotaBytes !== undefined ? ` of ${bytes(usage.quotaBytes)} that this browser allows` : '';
  return (
    <div class="row">
      <p class="hint">
        {bytes(usage.bytes)}
        {room}.{' '}
        {usage.persisted
          ? 'The browser keeps them when its disk is full.'
          : 'The browser may remove them when its disk is full.'}
      </p>
      {!usage.persisted && (
        <button type="button" onClick={onPersist}>
          Keep them
        </button>
      )}
    </div>
  );
}

/** The model to load again. What comes with the page keeps its name and its questions. */
function sourceOf({ id, files }: StoredModel): Source {
  const addresses = files.map(({ url }) => url).sort();
  const own = (BUILT_IN.model as readonly string[]).map((each) => new URL(each, location.href).href).sort();
  if (addresses.length === own.length && addresses.every((each, i) => each === own[i])) return BUILT_IN;
  // A shard's address stands for all of them; a folder's address for its files.
  const model = addresses.every((each) => /\.gguf(\?|$)/i.test(each)) ? addresses[0]! : id;
  return { name: nameOf(id), model };
}
