/** A result as JSON: to read, to copy, to keep as a file. */

import { useEffect, useState } from 'preact/hooks';
import { CopyButton } from '../ui/copy_button.js';

interface Properties {
  /** What it is, in words. */
  label: string;
  id: string;
  file: string;
  value: unknown;
}

export function Share({ label, id, file, value }: Properties) {
  const text = `${JSON.stringify(value, null, 2)}\n`;
  const [address, setAddress] = useState<string>();
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [text]);
  return (
    <details class="share">
      <summary>{label} as JSON</summary>
      <div class="row">
        <a class="button" download={file} {...(address && { href: address })}>
          Download
        </a>
        <CopyButton text={text} label={`Copy ${label.toLowerCase()}`} />
      </div>
      <pre id={id} tabIndex={0} aria-label={`${label} as JSON`}>
        {text}
      </pre>
    </details>
  );
}
