/** The text of a stage: layers fold, names and labels can be followed, what is searched for is marked. */

import { useMemo, useRef, useState } from 'preact/hooks';
import { plural } from '../ui/format.js';
import { memo } from '../ui/memo.js';
import { pressed } from './names_by_keys.js';
import { follows, has, linesOf, sectionsOf } from './lines.js';
import type { Followed, Line, Section } from './lines.js';
import { followed, query } from './state.js';

export function Listing({ stage, title, text }: { stage: string; title: string; text: string }) {
  const sections = useMemo(() => sectionsOf(linesOf(text)), [text]);
  const [open, setOpen] = useState<ReadonlySet<number>>(() => first(sections));
  const pane = useRef<HTMLDivElement>(null);
  const wanted = query.value.trim();
  const marked = (line: Line) => has(line, wanted) || follows(line, stage, followed.value);
  const found = useMemo(
    () => sections.flatMap(({ lines }) => lines.filter(marked)).length,
    [sections, wanted, followed.value],
  );
  const toggle = (at: number) =>
    setOpen((before) => {
      const after = new Set(before);
      if (!after.delete(at)) after.add(at);
      return after;
    });
  /** Names and labels are many, so the list listens for all of them. */
  const follow = (element: EventTarget | null) => {
    const { name, label } = (element as HTMLElement | null)?.dataset ?? {};
    if (!name && !label) return;
    const next: Followed = label ? { label } : { stage, name: name! };
    followed.value = same(followed.value, next) ? undefined : next;
  };
  const stop = () => {
    const was = followed.value !== undefined;
    followed.value = undefined;
    return was;
  };
  return (
    <section class="stage" aria-label={title}>
      <header>
        <h2>{title}</h2>
        <span class="hint">
          {plural(
            sections.reduce((sum, { lines }) => sum + lines.length, 0),
            'line',
          )}
          {found > 0 && `, ${found} marked`}
        </span>
        {sections.some(({ layer }) => layer !== '') && (
          <button
            type="button"
            class="quiet"
            onClick={() => setOpen(open.size > 0 ? new Set() : new Set(sections.keys()))}
          >
            {open.size > 0 ? 'Fold layers' : 'Unfold layers'}
          </button>
        )}
      </header>
      <div
        class="listing"
        ref={pane}
        tabIndex={0}
        role="region"
        aria-label={`${title}, as text`}
        aria-describedby="following-how"
        onClick={(event) => follow(event.target)}
        onKeyDown={(event) => pressed(event, pane.current!, { follow, stop })}
      >
        {sections.map((section, at) => {
          const lines = section.layer === '' || open.has(at) ? section.lines : section.lines.filter(marked);
          return (
            <div key={at}>
              {section.layer !== '' && (
                <button type="button" class="fold" aria-expanded={open.has(at)} onClick={() => toggle(at)}>
                  {section.layer} <small>{plural(section.lines.length, 'line')}</small>
                </button>
              )}
              {lines.map((line) => (
                <LineView key={line.at} line={line} marked={marked(line)} />
              ))}
            </div>
          );
        })}
      </div>
    </section>
  );
}

/** The first layer is open, for a glance; the others say the same. */
function first(sections: readonly Section[]): ReadonlySet<number> {
  const layer = sections.find(({ layer }) => layer !== '')?.layer;
  return new Set(
    [...sections.entries()].filter(([, each]) => each.layer !== '' && each.layer === layer).map(([at]) => at),
  );
}

const same = (a: Followed | undefined, b: Followed) =>
  a?.label === b.label && a?.stage === b.stage && a?.name === b.name;

const LineView = memo(({ line, marked }: { line: Line; marked: boolean }) => (
  <div class={marked ? 'line marked' : 'line'}>
    {line.pieces.map(({ text, name }) =>
      name ? (
        <span class="name" data-name={name}>
          {text}
        </span>
      ) : (
        text
      ),
    )}
    {line.label !== '' && (
      <span class="label" data-label={line.label}>
        {line.label}
      </span>
    )}
  </div>
));
