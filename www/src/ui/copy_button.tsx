/** A button that copies a text, and says whether that worked. */

import { useEffect, useState } from 'preact/hooks';
import { say } from '../state/news.js';
import { Icon } from './icons.js';

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      say('This browser did not let it be copied: select the text instead.');
    }
  };
  return (
    <button
      type="button"
      class="quiet copy"
      aria-label={copied ? 'Copied' : label}
      title={label}
      onClick={() => void copy()}
    >
      <Icon name={copied ? 'done' : 'copy'} />
    </button>
  );
}
