/** Functions that the model called: each a line that opens to what it was asked and what it answered. */

import type { Call } from '../state/types.js';

/** Characters of arguments and result in the line. */
const SHORT = 60;
/** Characters that are shown; an imported chat may have more. */
const MOST = 10_000;

export function Calls({ calls }: { calls: readonly Call[] }) {
  return (
    <ul class="calls" aria-label="Functions called">
      {calls.map((call, i) => (
        <li key={i}>
          <CallView call={call} />
        </li>
      ))}
    </ul>
  );
}

function CallView({ call: { name, arguments: given, result, failed } }: { call: Call }) {
  return (
    <details class="call">
      <summary>
        <code>{name}</code> <bdi>{short(values(given))}</bdi>{' '}
        <span class={failed ? 'fault' : 'result'}>{failed ? 'failed' : `→ ${short(result)}`}</span>
      </summary>
      <h4>Asked with</h4>
      <pre dir="auto">{given.slice(0, MOST)}</pre>
      <h4>Result</h4>
      <pre dir="auto">{result.slice(0, MOST)}</pre>
    </details>
  );
}

function short(text: string): string {
  const line = text.slice(0, MOST).replace(/\s+/g, ' ').trim();
  return line.length <= SHORT ? line : `${line.slice(0, SHORT - 1)}…`;
}

/** The values of the arguments alone. */
function values(given: string): string {
  try {
    return Object.values(JSON.parse(given) as object)
      .map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
      .join(', ');
  } catch {
    return given;
  }
}
