/** What is heard: the microphone, or a file. */

import { FilesButton } from '../ui/files_button.js';
import { listener } from './model.js';
import { failure, hearFile, hearMicrophone, sound, stop } from './state.js';

export function SoundPart() {
  return (
    <section class="need" aria-labelledby="talk-sound">
      <h2 id="talk-sound">Sound</h2>
      {sound.value ? <Running /> : <Choice />}
      {failure.value && (
        <p id="talk-error" class="fault" role="alert">
          <strong>{failure.value.what}</strong> {failure.value.hint}
        </p>
      )}
    </section>
  );
}

function Choice() {
  const ready = listener.value !== undefined;
  const slow = listener.value?.info.device === 'cpu' ? ', or later where the CPU hears slower than you speak' : '';
  return (
    <>
      <p>
        {ready
          ? `Speak, and words come every four seconds${slow}. Or open a file that your browser plays.`
          : 'Your voice or a file, once a model is there.'}
      </p>
      <div class="row">
        <button
          id="talk-microphone"
          type="button"
          class="primary"
          disabled={!ready}
          onClick={() => void hearMicrophone()}
        >
          Use the microphone
        </button>
        {ready && (
          <FilesButton
            label="Open a file"
            id="talk-file"
            accept="audio/*,video/*"
            onFiles={([file]) => void hearFile(file!)}
          />
        )}
      </div>
    </>
  );
}

function Running() {
  const { file, seconds, total, ending } = sound.value!;
  const name = file === undefined ? 'the microphone' : <bdi>{file}</bdi>;
  return (
    <>
      <p role="status">{ending ? 'Hearing the rest' : <>Listening to {name}</>}</p>
      {file !== undefined && <progress max={1} aria-label="Part heard" value={total ? seconds / total : undefined} />}
      <div class="row">
        <p class="hint grow">
          {clock(seconds)}
          {total !== undefined && ` of ${clock(total)}`}
        </p>
        <button id="talk-stop" type="button" onClick={stop}>
          Stop
        </button>
      </div>
    </>
  );
}

/** Minutes and seconds. */
const clock = (seconds: number) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
