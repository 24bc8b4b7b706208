/** Bars, one for each executor: lengths are shares of the width, so that texts have their size at every width. */

import { grouped } from './figures.js';

export interface Bar {
  name: string;
  /** Tokens per second. */
  value: number;
  /** What memory allows, as a line across the bar. */
  most?: number | undefined;
  /** Drawn in the second colour: another engine, for a comparison. */
  peer: boolean;
  /** What stands below the bar. */
  note: string;
}

const ROW = 68;

/** The table beside the chart has the same numbers, so a screen reader is told the title alone. */
export function Chart({ title, bars }: { title: string; bars: readonly Bar[] }) {
  const longest = Math.max(...bars.flatMap(({ value, most = 0 }) => [value, most]));
  const share = (value: number) => `${((100 * value) / longest).toFixed(2)}%`;
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <svg width="100%" height={bars.length * ROW} role="img" aria-label={`${title}. The table has the numbers.`}>
        {bars.map(({ name, value, most, peer, note }, i) => (
          <g key={name} transform={`translate(0 ${i * ROW})`}>
            <text class="name" y="16">
              {name}
            </text>
            <text class="value" x="100%" y="16" text-anchor="end">
              {grouped(value)} tokens/s
            </text>
            <rect class="track" y="24" width="100%" height="14" rx="3" />
            <rect class={peer ? 'peer' : 'own'} y="24" width={share(value)} height="14" rx="3" />
            {most !== undefined && <line class="most" x1={share(most)} x2={share(most)} y1="20" y2="42" />}
            <text class="note" y="55">
              {note}
            </text>
          </g>
        ))}
      </svg>
    </figure>
  );
}
