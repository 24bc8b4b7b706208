/** Which model a view has: the one that is offered, or one's own. Nothing is fetched before a button is pressed. */

import type { ComponentChildren } from 'preact';
import type { Source } from '../state/engine.js';
import type { ModelSlot } from '../state/model_slot.js';
import type { Where } from '../state/thread_types.js';
import { FetchingView } from '../ui/fetching_view.js';
import { about } from '../ui/format.js';
import { OwnModel } from './own_model.js';

/** A model that is offered: nothing is asked of the Hub before somebody presses its button. */
export interface Offered {
  source: Source;
  bytes: number;
  license: string;
}

interface Properties<M extends { source: Source }> {
  /** What it is for, and the beginning of the names of its elements. */
  use: 'search' | 'talk' | 'cut' | 'draw';
  slot: ModelSlot<M>;
  offered: Offered;
  /** What is said of the model that is offered, behind its name. */
  children: ComponentChildren;
  /** What a model that is there does, behind its name; where it does so follows. */
  does: (model: M) => string;
  where: (model: M) => Where;
}

export function ModelPart<M extends { source: Source }>({ use, slot, offered, children, does, where }: Properties<M>) {
  const { model, fetching, failure } = {
    model: slot.model.value,
    fetching: slot.fetching.value,
    failure: slot.failure.value,
  };
  return (
    <section class="need" aria-labelledby={`${use}-model`}>
      <h2 id={`${use}-model`}>Model</h2>
      {fetching ? (
        <FetchingView name={fetching.source.name} progress={fetching.progress} onStop={() => slot.stop()} />
      ) : model ? (
        <p id={`${use}-ready`}>
          <Name source={model.source} /> {does(model)} {placeOf(where(model))}.
        </p>
      ) : (
        <>
          <p>
            <Name source={offered.source} /> {children}
          </p>
          <div class="row">
            <button id={`${use}-fetch`} type="button" class="primary" onClick={() => void slot.load(offered.source)}>
              Load it ({about(offered.bytes)})
            </button>
          </div>
        </>
      )}
      {failure && (
        <p id={`${use}-model-error`} class="fault" role="alert">
          <strong>{failure.what}</strong> {failure.hint}
        </p>
      )}
      {!fetching && (
        <details>
          <summary>{model ? 'Another model' : 'Use a model of your own'}</summary>
          <OwnModel use={use} onChoose={(source) => void slot.load(source)} />
        </details>
      )}
    </section>
  );
}

function Name({ source }: { source: Source }) {
  return (
    <strong>
      <bdi>{source.name}</bdi>
    </strong>
  );
}

const placeOf = ({ device, adapter, fallbackReason }: Where): string =>
  `on ${device === 'webgpu' ? `the GPU (${adapter})` : 'the CPU'}${fallbackReason ? `, because ${fallbackReason}` : ''}`;
