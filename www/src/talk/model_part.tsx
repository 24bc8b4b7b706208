/** Which model hears: the one that is offered, or one's own. Nothing is fetched before a button is pressed. */

import { OwnModel } from '../models/own_model.js';
import { FetchingView } from '../ui/fetching_view.js';
import { about } from '../ui/format.js';
import { fetching, listener, loadListener, modelFailure, OFFERED, stopLoading } from './model.js';

export function ModelPart() {
  const failure = modelFailure.value;
  return (
    <section class="need" aria-labelledby="talk-model">
      <h2 id="talk-model">Model</h2>
      {fetching.value ? <Fetching /> : listener.value ? <Here /> : <Offered />}
      {failure && (
        <p id="talk-model-error" class="fault" role="alert">
          <strong>{failure.what}</strong> {failure.hint}
        </p>
      )}
      {!fetching.value && (
        <details>
          <summary>{listener.value ? 'Another model' : 'Use a model of your own'}</summary>
          <OwnModel use="talk" onChoose={(source) => void loadListener(source)} />
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
        <strong>{source.name}</strong> hears English, 95 million parameters, {license}, and writes capital letters
        without punctuation. It comes from the Hugging Face Hub once and is kept in this browser.
      </p>
      <div class="row">
        <button id="talk-fetch" type="button" class="primary" onClick={() => void loadListener(source)}>
          Load it ({about(size)})
        </button>
      </div>
    </>
  );
}

function Here() {
  const { source, info } = listener.value!;
  return (
    <p id="talk-listener">
      <strong>
        <bdi>{source.name}</bdi>
      </strong>{' '}
      listens on {info.device === 'webgpu' ? `the GPU (${info.adapter})` : 'the CPU'}
      {info.fallbackReason && `, because ${info.fallbackReason}`}.
    </p>
  );
}

function Fetching() {
  const { source, progress } = fetching.value!;
  return <FetchingView name={source.name} progress={progress} onStop={stopLoading} />;
}
