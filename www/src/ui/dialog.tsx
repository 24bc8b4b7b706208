/** A dialog over the page: the browser keeps the focus in it, and Escape closes it. */

import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Icon } from './icons.js';

interface Properties {
  title: string;
  kind: 'middle' | 'side' | 'left';
  onClose: () => void;
  children: ComponentChildren;
}

let count = 0;

export function Dialog({ title, kind, onClose, children }: Properties) {
  const element = useRef<HTMLDialogElement>(null);
  const label = useRef(`dialog-${++count}`).current;
  useLayoutEffect(() => {
    const opened = element.current!;
    opened.showModal();
    return () => opened.close();
  }, []);
  // By the element's own way, which gives the focus back to where it was; `close` then tells.
  const close = () => element.current?.close();
  return (
    <dialog
      ref={element}
      class={kind}
      aria-labelledby={label}
      onClose={onClose}
      onClick={(event) => event.target === element.current && close()}
    >
      <div class="dialog">
        <header>
          <h2 id={label}>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={close}>
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
