/** Which model reads: the one that is offered, or one's own. Nothing is fetched before a button is pressed. */

import { OwnModel } from '../models/own_model.js';
import { FetchingView } from '../ui/fetching_view.js';
import { about } from '../ui/format.js';
import { fetching, loadReader, modelFailure, OFFERED, reader, stopLoading } from './model.js';

export function ModelPart() {
  const failure = modelFailure.value;
  return (
    <section class="need" aria-labelledby="search-model">
      <h2 id="search-model">Model</h2>
      {fetching.value ? <Fetching /> : reader.value ? <Here /> : <Offered />}
      {failure && (
        <p id="search-model-error" class="fault" role="alert">
          <strong>{failure.what}</strong> {failure.hint}
        </p>
      )}
      {!fetching.value && (
        <details>
          <summary>{reader.value ? 'Another model' : 'Use a model of your own'}</summary>
          <OwnModel use="search" onChoose={(source) => void loadReader(source)} />
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
        <strong>{source.name}</strong> reads English, 22 million parameters, {license}. It comes from the Hugging Face
        Hub once and is kept in this browser.
      </p>
      <div class="row">
        <button id="search-fetch" type="button" class="primary" onClick={() => void loadReader(source)}>
          Load it ({about(size)})
        </button>
      </div>
    </>
  );
}

function Here() {
  const { source, width, device, adapter, fallbackReason } = reader.value!;
  return (
    <p id="search-reader">
      <strong>
        <bdi>{source.name}</bdi>
      </strong>{' '}
      makes {width} numbers of each passage, on {device === 'webgpu' ? `the GPU (${adapter})` : 'the CPU'}
      {fallbackReason && `, because ${fallbackReason}`}.
    </p>
  );
}

function Fetching() {
  const { source, progress } = fetching.value!;
  return <FetchingView name={source.name} progress={progress} onStop={stopLoading} />;
}
