/** A button that asks for files, or for a folder. */

import { useRef } from 'preact/hooks';

interface Properties {
  label: string;
  /** Of the field behind the button. */
  id: string;
  folder?: boolean;
  /** Endings of names to offer; all files if absent. */
  accept?: string;
  onFiles: (files: readonly File[]) => void;
}

export function FilesButton({ label, id, folder = false, accept, onFiles }: Properties) {
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
        {...(folder ? { webkitdirectory: true } : accept !== undefined && { accept })}
        onChange={() => {
          const files = [...(field.current!.files ?? [])];
          field.current!.value = ''; // the same files may be chosen again
          if (files.length > 0) onFiles(files);
        }}
      />
    </>
  );
}
