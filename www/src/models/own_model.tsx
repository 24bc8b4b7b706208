/** A model that is not in the list: by its address, or by its files. */

import { useState } from 'preact/hooks';
import type { Source } from '../state/engine.js';
import { FilesButton } from '../ui/files_button.js';
import { fromFiles, fromText } from './choose.js';
import { Fit } from './fit.js';

/** Files that a model may have. */
const MODEL_FILES = '.gguf,.safetensors,.json,.model,.jinja,.txt';

interface Properties {
  onChoose: (source: Source) => void;
  /** What the model is for. Only a model for the chat is checked for its size, and only that may be dropped on the page. */
  use?: 'chat' | 'inspect' | 'search' | 'talk' | 'cut' | 'draw';
}

/** Whether such models are folders, and no GGUF files. */
const ofFolders = (use: Properties['use']): boolean => use === 'talk' || use === 'draw';

export function OwnModel({ onChoose, use = 'chat' }: Properties) {
  const [text, setText] = useState('');
  const [fault, setFault] = useState<string>();
  const take = (source: Source | string) => {
    if (typeof source === 'string') setFault(source);
    else onChoose(source);
  };
  const given = fromText(text);
  return (
    <section aria-labelledby="models-own">
      <h3 id="models-own">Your own</h3>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          take(fromText(text));
        }}
      >
        <label class="field">
          <span>Address of a file or folder, or a name of the Hub</span>
          <input
            id="model-address"
            type="text"
            inputMode="url"
            autocomplete="off"
            spellcheck={false}
            value={text}
            placeholder={ofFolders(use) ? 'hf:owner/repository' : 'hf:owner/repository:Q4_K_M'}
            onInput={(event) => {
              setText(event.currentTarget.value);
              setFault(undefined);
            }}
          />
        </label>
        <div class="row">
          <button type="submit">{use === 'inspect' ? 'Inspect' : 'Load'}</button>
          {use === 'chat' && (
            <Fit key={text} model={typeof given === 'string' ? '' : given.model} disabled={typeof given === 'string'} />
          )}
        </div>
      </form>
      <div class="row">
        <FilesButton
          label="Open files"
          id="model-files"
          accept={MODEL_FILES}
          onFiles={(files) => take(fromFiles(files))}
        />
        <FilesButton label="Open a folder" id="model-folder" folder onFiles={(files) => take(fromFiles(files))} />
      </div>
      <p class="hint">
        {use === 'chat' && 'Or drop files or a folder on the page. '}
        Nothing of them leaves it. {ofFolders(use) ? 'A' : 'GGUF, or a'} folder as{' '}
        {use === 'draw' ? 'diffusers' : 'transformers'} writes it.
      </p>
      {fault && (
        <p class="fault" role="alert">
          {fault}
        </p>
      )}
    </section>
  );
}
