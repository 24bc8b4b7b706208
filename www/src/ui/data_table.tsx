/** A table that scrolls by itself where the page is narrower than it is. */

import type { ComponentChildren } from 'preact';

interface Properties {
  caption: string;
  head: readonly string[];
  rows: readonly (readonly ComponentChildren[])[];
  /** Whether a row's first cell is its name. */
  named?: boolean;
  /** The row that stands out. */
  chosen?: number;
}

export function DataTable({ caption, head, rows, named = false, chosen }: Properties) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {head.map((each) => (
              <th key={each} scope="col">
                {each}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i} class={i === chosen ? 'chosen' : undefined}>
              {row.map((cell, j) => (named && j === 0 ? <th scope="row">{cell}</th> : <td key={j}>{cell}</td>))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
