/** Where a model is chosen. */

import { BUILT_IN } from '../state/built_in.js';
import { load, loaded } from '../state/engine.js';
import type { Source } from '../state/engine.js';
import { about as roughly } from '../ui/format.js';
import { Dialog } from '../ui/dialog.js';
import { CATALOG } from './catalog.js';
import { Fit } from './fit.js';
import { OwnModel } from './own_model.js';
import { StoredModels } from './stored_models.js';

export default function ModelsDialog({ onClose }: { onClose: () => void }) {
  const choose = (source: Source) => {
    void load(source);
    onClose();
  };
  return (
    <Dialog title="Choose a model" kind="middle" onClose={onClose}>
      <section aria-labelledby="models-here">
        <h3 id="models-here">With this page</h3>
        <ul class="models">
          <Model
            source={BUILT_IN}
            facts={['29 million parameters', '19 MB', 'MIT or Apache 2.0']}
            about="Knows the Rust standard library, and little else."
            onChoose={choose}
          />
        </ul>
      </section>
      <section aria-labelledby="models-hub">
        <h3 id="models-hub">From the Hugging Face Hub</h3>
        <p class="hint">
          The Hub is asked for nothing until you press a button here. What is downloaded is kept in this browser.
        </p>
        <ul class="models">
          {CATALOG.map(({ name, id, parameters, bytes: size, license, about }) => (
            <Model
              key={id}
              source={{ name, model: id }}
              facts={[`${parameters} parameters`, roughly(size), license]}
              about={about}
              check
              onChoose={choose}
            />
          ))}
        </ul>
      </section>
      <OwnModel onChoose={choose} />
      <StoredModels onChoose={choose} />
    </Dialog>
  );
}

interface Properties {
  source: Source;
  facts: readonly string[];
  about: string;
  check?: boolean;
  onChoose: (source: Source) => void;
}

function Model({ source, facts, about, check = false, onChoose }: Properties) {
  const here = loaded.value?.source.model === source.model;
  return (
    <li>
      <div>
        <strong>{source.name}</strong>
        <span>{about}</span>
        <small>{facts.join(' · ')}</small>
      </div>
      <div class="row">
        {check && <Fit model={source.model} />}
        {here ? (
          <span class="here">Loaded</span>
        ) : (
          <button type="button" aria-label={`Load ${source.name}`} onClick={() => onChoose(source)}>
            Load
          </button>
        )}
      </div>
    </li>
  );
}
