/** The memory plan as a picture: time across, bytes up. Pointing at a rectangle names it. */

import type { InspectedProgram } from 'rlx-wasm/inspect';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { bytes } from '../ui/format.js';

export function Memory({
  program: { memory, arenaBytes, largestLiveBytes, unsharedBytes, weightBytes, stateBytes },
}: {
  program: InspectedProgram;
}) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    // The picture has styles of its own, which stay inside.
    const root = place.current!.shadowRoot ?? place.current!.attachShadow({ mode: 'open' });
    const { documentElement } = new DOMParser().parseFromString(memory, 'image/svg+xml');
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
