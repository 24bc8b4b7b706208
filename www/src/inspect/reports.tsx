/** What fused and what did not, and how the device runs each kind of operator. */

import type { DispatchReport, FusionReport } from 'rlx-wasm/inspect';
import { DataTable } from '../ui/data_table.js';
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
      <DataTable
        caption="Passes that changed something"
        head={['Pass', 'Changes']}
        rows={passes.map(([pass, changes]) => [pass, changes])}
      />
      {misses.length > 0 && (
        <DataTable
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
      <DataTable
        caption={`How ${backend} runs each kind of operator`}
        head={['Operator', 'How many', 'How', 'Why']}
        rows={kinds.map(({ kind, nodes, path, why }) => [kind, nodes, path, why])}
      />
      {unsupported.length > 0 && (
        <DataTable
          caption="What it cannot run"
          head={['At', 'Operator', 'Form', 'Why']}
          rows={unsupported.map(({ node, kind, form, why }) => [node, kind, form, why])}
        />
      )}
    </section>
  );
}
