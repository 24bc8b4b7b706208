/** A passage in its file, to read around it. */

import { useLayoutEffect, useRef } from 'preact/hooks';
import { CopyButton } from '../ui/copy_button.js';
import { Dialog } from '../ui/dialog.js';
import type { Result } from './query.js';
import type { Indexed } from './state.js';

/** Letters before a passage and behind it. */
const AROUND = 20_000;

/** Where a passage is, in words. */
export const placeOf = ({ heading, line, file }: Indexed): string =>
  heading || (file.kind === 'html' ? `paragraph at line ${line} of its text` : `line ${line}`);

export function Reading({ result, onClose }: { result: Result; onClose: () => void }) {
  const { file, start, end } = result.passage;
  const found = useRef<HTMLElement>(null);
  useLayoutEffect(() => found.current?.scrollIntoView({ block: 'center' }), []);
  const from = Math.max(0, start - AROUND);
  const to = Math.min(file.text.length, end + AROUND);
  return (
    <Dialog title={file.path} kind="middle" onClose={onClose}>
      <div class="row">
        <p class="hint grow">
          <bdi>{placeOf(result.passage)}</bdi>
        </p>
        <CopyButton text={file.text.slice(start, end)} label="Copy the passage" />
      </div>
      <div class="reading" tabIndex={0} role="region" aria-label={`Text of ${file.path}`} dir="auto">
        {from > 0 && '…'}
        {file.text.slice(from, start)}
        <mark ref={found}>{file.text.slice(start, end)}</mark>
        {file.text.slice(end, to)}
        {to < file.text.length && '…'}
      </div>
    </Dialog>
  );
}
