/** Search by meaning in one's own text files: nothing of them leaves the page. */

import { useEffect } from 'preact/hooks';
import { say } from '../state/news.js';
import { ViewFrame } from '../ui/view_frame.js';
import { givenByDrop } from './files.js';
import { FilesPart } from './files_part.js';
import { Finder } from './finder.js';
import { IndexingPart } from './indexing_part.js';
import { ModelPart } from './model_part.js';
import { choose, chosen, index, kept } from './state.js';
import { keptBytes } from './store.js';
import '../styles/needs.css';
import '../styles/search.css';

export default function SearchView() {
  useEffect(() => {
    void keptBytes().then((bytes) => (kept.value = bytes));
    return takeDrops();
  }, []);
  return (
    <ViewFrame name="search" heading="Search your files">
      <p class="hint">
        A model reads your text files on this device and finds passages by what they mean, also where they use other
        words than you do. Nothing of your files leaves this page.
      </p>
      <div class="needs">
        <ModelPart />
        <FilesPart />
      </div>
      <IndexingPart />
      {index.value && chosen.value && <Finder />}
    </ViewFrame>
  );
}

/** What is dropped here is searched; elsewhere on the page it is a model, or goes with a question. */
function takeDrops(): () => void {
  const take = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.type !== 'drop') return;
    // What was dropped is readable only during the event.
    const dropped = [...event.dataTransfer.items].flatMap((item) => item.webkitGetAsEntry() ?? item.getAsFile() ?? []);
    givenByDrop(dropped).then(choose, () => say('What was dropped could not be read: choose it by a button.'));
  };
  document.addEventListener('dragover', take);
  document.addEventListener('drop', take);
  return () => {
    document.removeEventListener('dragover', take);
    document.removeEventListener('drop', take);
  };
}
