/** Which files are searched: chosen, a folder of them, or dropped. */

import { FilesButton } from '../ui/files_button.js';
import { plural } from '../ui/format.js';
import { givenByField, MOST_FILES, MOST_PASSAGES } from './files.js';
import { choose, chosen, index, reading } from './state.js';

/** How many refused files are named at once. */
const SHOWN = 100;

export function FilesPart() {
  const take = (files: readonly File[]) => void choose(givenByField(files));
  return (
    <section class="need" aria-labelledby="search-files">
      <h2 id="search-files">Files</h2>
      <p id="search-chosen" role="status">
        {text()}
      </p>
      <div class="row">
        <FilesButton label="Choose a folder" id="search-folder" folder onFiles={take} />
        <FilesButton label="Choose files" id="search-file" onFiles={take} />
      </div>
      <Refused />
    </section>
  );
}

function text(): string {
  if (reading.value > 0) return `Reading ${plural(reading.value, 'file')}`;
  if (!chosen.value)
    return `Notes, documents, HTML, source code: any text in UTF-8, up to ${MOST_FILES.toLocaleString('en')} files of 1 MB. Or drop a folder here.`;
  const { files } = chosen.value;
  if (files.length === 0) return 'None of these files has text that can be read here. Choose others.';
  const count = index.value && `, ${plural(index.value.passages.length, 'passage')}`;
  return `${plural(files.length, 'file')}${count ?? ''}`;
}

function Refused() {
  const { refused, passedOver } = chosen.value ?? { refused: [], passedOver: 0 };
  const leftOut = index.value?.leftOut ?? 0;
  const truncated = index.value?.truncated ?? 0;
  return (
    <>
      {passedOver > 0 && (
        <p class="hint">
          Passed over: {plural(passedOver, 'file')} in hidden or package folders, or above{' '}
          {MOST_FILES.toLocaleString('en')}.
        </p>
      )}
      {leftOut > 0 && (
        <p class="hint">
          Not searched: the last {plural(leftOut, 'file')}, because there are more than{' '}
          {MOST_PASSAGES.toLocaleString('en')} passages. Choose a smaller folder for them.
        </p>
      )}
      {truncated > 0 && (
        <p class="hint">
          {plural(truncated, 'passage')} had more words than the model reads, so their ends are not found.
        </p>
      )}
      {refused.length > 0 && (
        <details id="search-refused">
          <summary>{plural(refused.length, 'file')} not read</summary>
          <ul>
            {refused.slice(0, SHOWN).map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
            {refused.length > SHOWN && <li>And {plural(refused.length - SHOWN, 'more file')}.</li>}
          </ul>
        </details>
      )}
    </>
  );
}
