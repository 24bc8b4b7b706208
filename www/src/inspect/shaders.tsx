/** The shaders of a program's steps. */

import type { InspectedKernels } from 'rlx-wasm/inspect';
import { useState } from 'preact/hooks';
import { CopyButton } from '../ui/copy_button.js';
import { plural } from '../ui/format.js';

export function Shaders({ kernels: { shaders, steps } }: { kernels: InspectedKernels }) {
  const [at, setAt] = useState(() => steps.findIndex(({ shader }) => shader !== null));
  const step = steps[at];
  const text = step?.shader != null ? shaders[step.shader]! : '';
  const same = steps.filter(({ shader }) => shader === step?.shader).length;
  return (
    <section class="report shaders" aria-label="Shaders">
      <label class="field">
        <span>Step</span>
        <select id="shader" value={at} onChange={(event) => setAt(Number(event.currentTarget.value))}>
          {steps.map(({ label, operator, shader }, i) => (
            <option key={i} value={i} disabled={shader === null}>
              {i}: {operator} {label !== operator && label}
            </option>
          ))}
        </select>
      </label>
      {step && (
        <div class="row">
          <p class="hint">
            {plural(shaders.length, 'shader')} in all. {plural(same, 'step')} of this program{' '}
            {same === 1 ? 'has' : 'have'} this one, this step in {step.groups?.join(' × ')} workgroups.
          </p>
          <CopyButton text={text} label="Copy the shader" />
        </div>
      )}
      <pre tabIndex={0} aria-label="WGSL">
        <code>{text}</code>
      </pre>
    </section>
  );
}
