/** Time to the right: layers above, their kernels below. One layer can be looked at alone. */

import type { TracedLaunch } from 'rlx-wasm/inspect';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { plural } from '../ui/format.js';
import { bandwidth, bytesOf, groupsOf, kindOf, share, time } from './times.js';
import type { Group, Kind } from './times.js';

/** Layers whose box is wider than this share of the picture are named in it. */
const NAMED = 4.5;
const KINDS: { readonly [kind in Kind]: string } = {
  product: 'matrix products',
  attention: 'attention',
  other: 'all else',
};

export function TimelinePicture({ launches }: { launches: readonly TracedLaunch[] }) {
  const groups = useMemo(() => groupsOf(launches), [launches]);
  /** The group that is looked at alone. */
  const [alone, setAlone] = useState<number | undefined>(undefined);
  /** The kernel that is spoken of, by its number among all. */
  const [cursor, setCursor] = useState<number | undefined>(undefined);
  useEffect(() => {
    setAlone(undefined);
    setCursor(undefined);
  }, [launches]);
  const shown = alone === undefined ? groups : groups.slice(alone, alone + 1);
  const kernels = shown.flatMap((group) => group.launches);
  const from = Math.min(...kernels.map(({ startMs }) => startMs));
  const span = Math.max(...kernels.map(({ startMs, ms }) => startMs + ms)) - from || 1;
  const place = (startMs: number, ms: number) => ({
    x: `${((100 * (startMs - from)) / span).toFixed(3)}%`,
    width: `${Math.max(0.08, (100 * ms) / span).toFixed(3)}%`,
  });
  const groupOf = (launch: TracedLaunch) => groups.findIndex((group) => group.launches.includes(launch));
  const first = launches.indexOf(kernels[0]!);
  const keys: { [key: string]: (at: number) => number | undefined } = {
    ArrowRight: (at) => at + 1,
    ArrowLeft: (at) => at - 1,
    Home: () => first,
    End: () => first + kernels.length - 1,
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Escape' && alone !== undefined) setAlone(undefined);
    else if (event.key === 'Enter' && cursor !== undefined) setAlone(groupOf(launches[cursor]!));
    else if (keys[event.key]) {
      const next = cursor === undefined ? first : keys[event.key]!(cursor)!;
      setCursor(Math.max(first, Math.min(first + kernels.length - 1, next)));
    } else return;
    event.preventDefault();
  };
  const look = (at: number) => {
    setAlone(at);
    setCursor(launches.indexOf(groups[at]!.launches[0]!));
  };
  return (
    <figure class="times">
      <div class="row">
        <ul class="kinds" aria-label="Colours">
          {(Object.keys(KINDS) as Kind[]).map((kind) => (
            <li key={kind} class={kind}>
              {KINDS[kind]}
            </li>
          ))}
        </ul>
        <button
          type="button"
          id="whole"
          class="quiet"
          disabled={alone === undefined}
          onClick={() => setAlone(undefined)}
        >
          Whole step
        </button>
      </div>
      <svg
        id="kernels"
        role="listbox"
        tabIndex={0}
        aria-label="Kernels in the order of time. Arrows go from one to the next, Enter shows its layer alone, Escape all."
        aria-activedescendant={cursor === undefined ? undefined : `kernel-${cursor}`}
        onKeyDown={press}
        onFocus={() => cursor === undefined && setCursor(first)}
      >
        {shown.map((group) => (
          <Layer
            key={group.startMs}
            group={group}
            {...place(group.startMs, group.ms)}
            named={(100 * group.ms) / span > NAMED}
            onChoose={() => look(groups.indexOf(group))}
          />
        ))}
        {kernels.map((launch, i) => (
          <rect
            key={first + i}
            id={`kernel-${first + i}`}
            role="option"
            aria-selected={cursor === first + i}
            aria-label={`${launch.label}: ${told(launch, span)}`}
            class={kindOf(launch)}
            y="34"
            height="56"
            {...place(launch.startMs, launch.ms)}
            onMouseEnter={() => setCursor(first + i)}
            onClick={() => look(groupOf(launch))}
          />
        ))}
      </svg>
      <figcaption>
        <p class="hint">
          {alone === undefined
            ? `${plural(groups.length, 'group')}, press one to look at it alone`
            : groups[alone]!.name}
          <span>{time(span)}</span>
        </p>
        <p id="kernel-told">
          {cursor !== undefined && launches[cursor] ? (
            <>
              <strong>{launches[cursor].label}</strong> <code>{launches[cursor].kernel}</code>{' '}
              {told(launches[cursor], span)}
            </>
          ) : (
            'Point at a kernel to see its name, its time and what it moves.'
          )}
        </p>
      </figcaption>
    </figure>
  );
}

function told(launch: TracedLaunch, span: number): string {
  return `${time(launch.ms)}, ${share(launch.ms, span)} of what is shown, ${bandwidth(bytesOf(launch), launch.ms)}`;
}

interface Box {
  group: Group;
  x: string;
  width: string;
  named: boolean;
  onChoose: () => void;
}

/** A picture within the picture clips the name. */
function Layer({ group, x, width, named, onChoose }: Box) {
  return (
    <svg class="layer" x={x} y="0" width={width} height="28" aria-hidden="true" onClick={onChoose}>
      <title>{`${group.name}: ${time(group.ms)}`}</title>
      <rect width="100%" height="100%" rx="3" />
      {named && (
        <text x="6" y="18">
          {group.name}
        </text>
      )}
    </svg>
  );
}
