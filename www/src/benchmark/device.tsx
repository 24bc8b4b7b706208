/** The kernels of this browser's GPU: measured by `Engine.tune`, shown in words, in numbers and as the report that others can use. */

import { signal } from '@preact/signals';
import { Engine } from 'rlx-wasm';
import type { DeviceReport, FormsReport } from 'rlx-wasm';
import { useEffect, useRef } from 'preact/hooks';
import { failureOf } from '../state/engine.js';
import type { Failure } from '../state/engine.js';
import { DataTable } from '../ui/data_table.js';
import { Share } from './share.js';
import { running as benchmarking } from './state.js';

/** What a tuning's choices are, by their names in a report. */
const CHOICES: { readonly [name: string]: string } = {
  short: 'Products with rows of up to 4,096 elements: threads × rows of a workgroup',
  long: 'Products with longer rows: threads × rows',
  gated: 'Products with a gate: threads × rows',
  head: 'The product that makes a token: threads × rows',
  parts: 'Attention: parts at a time',
};

/** The share that is done. */
const done = signal<number | undefined>(undefined);
const found = signal<{ report: DeviceReport; kept: boolean } | undefined>(undefined);
const failed = signal<Failure | undefined>(undefined);
let abort: AbortController | undefined;

async function measure(): Promise<void> {
  const own = (abort = new AbortController());
  failed.value = undefined;
  found.value = undefined;
  done.value = 0;
  try {
    const { report, kept } = await Engine.tune({
      report: true,
      signal: own.signal,
      onProgress: (share) => (done.value = share),
    });
    found.value = { report: report!, kept };
  } catch (error) {
    if (!own.signal.aborted) failed.value = failureOf(error);
  }
  done.value = undefined;
}

/** Three digits. */
const short = (n: number) => String(Number(n.toPrecision(3)));

export function Device() {
  return (
    <section class="report device" aria-labelledby="device-title">
      <h2 id="device-title">This device’s kernels</h2>
      <p>
        Which kernels suit a GPU is measured once: it takes some seconds and up to 512 MB of the GPU’s memory. What is
        found is stored in this browser, and models of this site use it from then on. No model is downloaded, and
        nothing leaves this page unless you send the report to somebody.
      </p>
      {done.value === undefined ? (
        <div class="row">
          <button id="measure" type="button" disabled={benchmarking.value !== undefined} onClick={() => void measure()}>
            {found.value ? 'Measure the kernels again' : 'Measure the kernels'}
          </button>
        </div>
      ) : (
        <Working share={done.value} />
      )}
      {failed.value && (
        <p id="device-error" class="fault" role="alert">
          <strong>{failed.value.what}</strong> {failed.value.hint}
        </p>
      )}
      {found.value && <Found {...found.value} />}
    </section>
  );
}

/** Told at most where a tenth more is done: a screen reader says each. */
function Working({ share }: { share: number }) {
  return (
    <div class="working">
      <progress id="device-progress" max={1} value={share} aria-label="Share that is done" />
      <div class="row">
        <p role="status" class="hint">
          Measuring kernels: {Math.floor(share * 10) * 10} % done
        </p>
        <button type="button" onClick={() => abort?.abort()}>
          Stop
        </button>
      </div>
    </div>
  );
}

function Found({ report, kept }: { report: DeviceReport; kept: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => place.current?.focus(), []);
  const facts: [string, string][] = [
    ['GPU', report.adapter + (report.software ? ' (software: the processor simulates it)' : '')],
    ['Memory', `${short(report.copy_bytes_per_second / 1e9)} GB/s of copies, reads and writes counted`],
    ['Features', report.features.join(', ') || 'none beyond what every WebGPU has'],
    ['Subgroups', report.subgroups ?? 'not used'],
    ...report.demoted.map((why): [string, string] => ['Not used', why]),
    ['Kernels', report.tuning],
  ];
  return (
    <div id="device-results" class="found" ref={place} tabIndex={-1} role="group" aria-label="What was found">
      <p id="device-summary">{summary(report, kept)}</p>
      <dl id="device">
        {facts.map(([name, value]) => (
          <div key={name + value}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {Object.entries(report.choices).map(([name, tried]) => (
        <Choice key={name} name={name} tried={tried} tuning={report.tuning} />
      ))}
      {report.forms.length > 0 && <Forms all={report.forms} />}
      <p class="hint">
        The report names the GPU, the browser and the times, and nothing of you. It helps others with such a device:
        attach it to an issue of the project.
      </p>
      <Share label="The device’s report" id="device-json" file="device-report.json" value={report} />
    </div>
  );
}

function summary({ software, forms }: DeviceReport, kept: boolean): string {
  const sentences = [];
  const chosen = forms.flatMap((each) => each.chosen ?? []);
  if (software)
    sentences.push(
      'There is no GPU that this browser may use: the processor simulates one, and runs models faster without that.',
    );
  else if (chosen.some((types) => types.includes('f32')))
    sentences.push('On this GPU floats are as fast as integers in some products, and are used there.');
  else if (chosen.length > 0) sentences.push('On this GPU integers are faster than floats, and are used.');
  sentences.push(
    kept
      ? 'The fastest kernels are stored for this site.'
      : 'This browser stores nothing for this site, so other pages do not know of it.',
  );
  return sentences.join(' ');
}

/** What was tried for a choice; the one that was taken stands out, in words too. */
function Choice({ name, tried, tuning }: { name: string; tried: { [tried: string]: number }; tuning: string }) {
  const prefix = `${name}=`;
  const taken = tuning
    .split(' ')
    .find((word) => word.startsWith(prefix))
    ?.slice(prefix.length);
  const rows = Object.entries(tried);
  return (
    <DataTable
      named
      caption={CHOICES[name] ?? name}
      head={['Tried', 'Milliseconds']}
      chosen={rows.findIndex(([each]) => each === taken)}
      rows={rows.map(([each, ms]) => [each === taken ? `${each} (taken)` : each, short(ms)])}
    />
  );
}

function Forms({ all }: { all: readonly FormsReport[] }) {
  const pair = (ms: [number, number] | null) => (ms ? `${short(ms[0])} / ${short(ms[1])}` : '–');
  return (
    <DataTable
      named
      caption="Layers of models: milliseconds with integers / with floats"
      head={['Model', 'A token', 'A prompt of 128', 'Taken']}
      rows={all.map((each) => [
        each.model,
        pair(each.decode_ms),
        pair(each.prompt_ms),
        each.chosen ?? each.failed ?? '',
      ])}
    />
  );
}
