/** The memory plan as a picture: time across, bytes up. Pointing at a rectangle names it. */

import type { InspectedProgram } from 'rlx-wasm/inspect';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { trustedTypes } from '../trusted.js';
import { bytes } from '../ui/format.js';

/**
 * The compiler's own printer makes the picture, and escapes the names that a file gives; a document of its own, which
 * runs nothing, reads it.
 */
const picture = trustedTypes?.createPolicy('rlx-picture', { createHTML: (text: string) => text });

export function Memory({
  program: { memory, arenaBytes, largestLiveBytes, unsharedBytes, weightBytes, stateBytes },
}: {
  program: InspectedProgram;
}) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    // The picture has styles of its own, which stay inside: as a sheet, for the page's policy allows no style elements,
    // not even in a document that is only read.
    const root = place.current!.shadowRoot ?? place.current!.attachShadow({ mode: 'open' });
    const styles = new CSSStyleSheet();
    const text = memory.replace(/<style>([^<]*)<\/style>/, (_, rules: string) => (styles.replaceSync(rules), ''));
    root.adoptedStyleSheets = [styles];
    const { documentElement } = new DOMParser().parseFromString(picture?.createHTML(text) ?? text, 'image/svg+xml');
    documentElement.querySelectorAll('script').forEach((each) => each.remove());
    documentElement.setAttribute('width', '100%');
    documentElement.removeAttribute('height');
    documentElement.setAttribute(
      'aria-label',
      'The arena: time to the right, bytes upwards, a rectangle for each buffer',
    );
    root.replaceChildren(document.importNode(documentElement, true));
  }, [memory]);
  return (
    <section class="report" aria-label="Memory">
      <p>
        What a run computes on the way takes {bytes(arenaBytes)}, because buffers share places: side by side they would
        take {bytes(unsharedBytes)}, and at most {bytes(largestLiveBytes)} are needed at one time. Weights take{' '}
        {bytes(weightBytes)}, caches and other states {bytes(stateBytes)}.
      </p>
      <div class="picture" ref={place} />
    </section>
  );
}
