/** Files that are dropped on the page: a model is loaded, text goes with the next question. */

import { attach } from '../state/attachments.js';
import { load } from '../state/engine.js';
import { say } from '../state/news.js';

/** Listens for drops; `over` says whether something is being dragged over the page. */
export function listen(over: (dragged: boolean) => void): void {
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') ?? false;
  addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    over(true);
  });
  addEventListener('dragleave', (event) => event.relatedTarget === null && over(false));
  addEventListener('drop', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    over(false);
    // What was dropped is readable only during the event.
    // Where a browser has no entry for a file, it has the file.
    const dropped = [...event.dataTransfer!.items].flatMap((item) => item.webkitGetAsEntry() ?? item.getAsFile() ?? []);
    void take(dropped).catch((error: unknown) =>
      say(`What was dropped could not be read: ${error instanceof Error ? error.message : String(error)}`),
    );
  });
}

async function take(dropped: readonly (FileSystemEntry | File)[]): Promise<void> {
  const { filesOf, fromFiles, isModelFile } = await import('./choose.js');
  const files = await filesOf(dropped);
  const folder = dropped.some((each) => 'isDirectory' in each && each.isDirectory);
  if (!folder && !files.some(({ name }) => isModelFile(name))) return attach(files);
  const source = fromFiles(files);
  if (typeof source === 'string') say(source);
  else await load(source);
}
