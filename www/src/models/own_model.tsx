/** A model that is not in the list: by its address, or by its files. */

import { useRef, useState } from 'preact/hooks';
import type { Source } from '../state/engine.js';
import { fromFiles, fromText } from './choose.js';
import { Fit } from './fit.js';

/** `inspect`: the model is only looked at, so that it need not fit, and is not what a drop on the page means. */
export function OwnModel({ onChoose, inspect = false }: { onChoose: (source: Source) => void; inspect?: boolean }) {
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
            placeholder="hf:owner/repository:Q4_K_M"
            onInput={(event) => {
              setText(event.currentTarget.value);
              setFault(undefined);
            }}
          />
        </label>
        <div class="row">
          <button type="submit">{inspect ? 'Inspect' : 'Load'}</button>
          {!inspect && (
            <Fit key={text} model={typeof given === 'string' ? '' : given.model} disabled={typeof given === 'string'} />
          )}
        </div>
      </form>
      <div class="row">
        <Files label="Open files" id="model-files" onFiles={(files) => take(fromFiles(files))} />
        <Files label="Open a folder" id="model-folder" folder onFiles={(files) => take(fromFiles(files))} />
      </div>
      <p class="hint">
        {!inspect && 'Or drop files or a folder on the page. '}
        Nothing of them leaves it. GGUF, or a folder as transformers writes it.
      </p>
      {fault && (
        <p class="fault" role="alert">
          {fault}
        </p>
      )}
    </section>
  );
}

interface FilesProperties {
  label: string;
  id: string;
  folder?: boolean;
  onFiles: (files: readonly File[]) => void;
}

function Files({ label, id, folder = false, onFiles }: FilesProperties) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" onClick={() => field.current?.click()}>
        {label}
      </button>
      <input
        id={id}
        ref={field}
        type="file"
        multiple
        hidden
        aria-label={label}
        {...(folder ? { webkitdirectory: true } : { accept: '.gguf,.safetensors,.json,.model,.jinja' })}
        onChange={() => {
          const files = [...(field.current!.files ?? [])];
          field.current!.value = ''; // the same files may be chosen again
          if (files.length > 0) onFiles(files);
        }}
      />
    </>
  );
}
