/** What fused and what did not, and how the device runs each kind of operator. */

import type { DispatchReport, FusionReport } from 'rlx-wasm/inspect';
import { bytes, plural } from '../ui/format.js';

export function Fusion({ report: { nodes, traffic, fused, misses } }: { report: FusionReport }) {
  const passes = Object.entries(fused).filter(([, changes]) => changes > 0);
  return (
    <section class="report" aria-label="Fusion">
      <p>
        {plural(nodes[0], 'operator')} became {nodes[1].toLocaleString('en')}.
        {traffic &&
          ` By the target's cost model a run makes ${plural(traffic.after.launches, 'launch')} instead of ${traffic.before.launches} and moves ${bytes(traffic.after.bytes)} of values instead of ${bytes(traffic.before.bytes)}.`}
      </p>
      <Table
        caption="Passes that changed something"
        head={['Pass', 'Changes']}
        rows={passes.map(([pass, changes]) => [pass, changes])}
      />
      {misses.length > 0 && (
        <Table
          caption="What nearly fused"
          head={['Pattern', 'At', 'Why not', 'What would help']}
          rows={misses.map(({ pattern, node, reason, context, hint }) => [
            pattern,
            node,
            context ? `${reason}: ${context}` : reason,
            hint,
          ])}
        />
      )}
    </section>
  );
}

export function Dispatch({ report: { backend, kinds, unsupported } }: { report: DispatchReport }) {
  return (
    <section class="report" aria-label="Operators">
      <Table
        caption={`How ${backend} runs each kind of operator`}
        head={['Operator', 'How many', 'How', 'Why']}
        rows={kinds.map(({ kind, nodes, path, why }) => [kind, nodes, path, why])}
      />
      {unsupported.length > 0 && (
        <Table
          caption="What it cannot run"
          head={['At', 'Operator', 'Form', 'Why']}
          rows={unsupported.map(({ node, kind, form, why }) => [node, kind, form, why])}
        />
      )}
    </section>
  );
}

export function Table({
  caption,
  head,
  rows,
}: {
  caption: string;
  head: readonly string[];
  rows: readonly (readonly (string | number)[])[];
}) {
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
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
