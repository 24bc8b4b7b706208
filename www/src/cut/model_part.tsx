/** Which model finds things: the one that is offered, or one's own. Nothing is fetched before a button is pressed. */

import { OwnModel } from '../models/own_model.js';
import { FetchingView } from '../ui/fetching_view.js';
import { about } from '../ui/format.js';
import { fetching, loadModel, model, modelFailure, OFFERED, stopLoading } from './model.js';

export function ModelPart() {
  const failure = modelFailure.value;
  return (
    <section class="need" aria-labelledby="cut-model">
      <h2 id="cut-model">Model</h2>
      {fetching.value ? (
        <FetchingView name={fetching.value.source.name} progress={fetching.value.progress} onStop={stopLoading} />
      ) : model.value ? (
        <Here />
      ) : (
        <Offered />
      )}
      {failure && (
        <p id="cut-model-error" class="fault" role="alert">
          <strong>{failure.what}</strong> {failure.hint}
        </p>
      )}
      {!fetching.value && (
        <details>
          <summary>{model.value ? 'Another model' : 'Use a model of your own'}</summary>
          <OwnModel use="cut" onChoose={(source) => void loadModel(source)} />
        </details>
      )}
    </section>
  );
}

function Offered() {
  const { source, bytes: size, license } = OFFERED;
  return (
    <>
      <p>
        <strong>{source.name}</strong> finds things of any kind, 94 million parameters, {license}. It comes from the
        Hugging Face Hub once and is kept in this browser. It wants a GPU: without one it looks at a photo for minutes.
      </p>
      <div class="row">
        <button id="cut-fetch" type="button" class="primary" onClick={() => void loadModel(source)}>
          Load it ({about(size)})
        </button>
      </div>
    </>
  );
}

function Here() {
  const { source, device, adapter, fallbackReason } = model.value!;
  return (
    <p id="cut-ready">
      <strong>
        <bdi>{source.name}</bdi>
      </strong>{' '}
      runs on {device === 'webgpu' ? `the GPU (${adapter})` : 'the CPU'}
      {fallbackReason && `, because ${fallbackReason}`}.
    </p>
  );
}
