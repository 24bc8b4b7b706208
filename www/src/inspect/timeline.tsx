/** When each kernel of a program runs on this device, and how long. */

import type { InspectedProgram, Trace } from 'rlx-wasm/inspect';
import { useEffect, useState } from 'preact/hooks';
import { DataTable } from '../ui/data_table.js';
import { bytes, plural } from '../ui/format.js';
import { bandwidth, bytesOf, share, time, totalsOf } from './times.js';
import { TimelinePicture } from './timeline_picture.js';
import { forgetTimes, stopTiming, timed, timeStep, timing, untimed } from './timeline_state.js';
import '../styles/timeline.css';

/** The clock is fine enough not to be spoken of. */
const FINE_MS = 0.002;

export function Timeline({ program }: { program: InspectedProgram }) {
  useEffect(() => forgetTimes, []);
  if (!program.kernels) {
    return (
      <section class="report" aria-label="Timeline">
        <p>
          Kernels are timed by a GPU’s own clock, and the CPU has none. Choose WebGPU beside “Compiled for” to see how
          long each kernel takes.
        </p>
      </section>
    );
  }
  return (
    <section class="report timeline" aria-label="Timeline">
      <Ask program={program} />
      {untimed.value && (
        <p id="timeline-error" class="fault" role="alert">
          <strong>{untimed.value.what}</strong> {untimed.value.hint}
        </p>
      )}
      {timed.value && <Times trace={timed.value} />}
    </section>
  );
}

function Ask({ program: { name, weightBytes, stateBytes, arenaBytes } }: { program: InspectedProgram }) {
  const [past, setPast] = useState(0);
  const now = timing.value;
  return (
    <>
      <p>
        Runs this program on your GPU a number of times and asks the GPU’s clock about each kernel. Weights are zeros
        meanwhile, so nothing is downloaded. It takes {bytes(weightBytes + stateBytes + arenaBytes)} of the GPU’s memory
        until it is done, beside what the loaded model has.
      </p>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void timeStep(name, past);
        }}
      >
        <label class="past">
          <span>Tokens before it</span>
          <input
            id="past"
            type="number"
            min={0}
            step={1}
            value={past}
            onInput={(event) => setPast(Math.max(0, Math.round(event.currentTarget.valueAsNumber) || 0))}
          />
        </label>
        {now ? (
          <button type="button" id="stop-timing" onClick={stopTiming}>
            Stop
          </button>
        ) : (
          <button type="submit" id="time-step" class="primary">
            Time one step on this device
          </button>
        )}
        {now && <progress aria-label="Runs" max={now.runs || 1} value={now.runs ? now.done : undefined} />}
        <p role="status" class="hint">
          {now ? 'Timing the kernels' : ''}
        </p>
      </form>
    </>
  );
}

function Times({ trace }: { trace: Trace }) {
  const { launches, ms, past, rows, runs, clockMs } = trace;
  const moved = launches.reduce((sum, launch) => sum + bytesOf(launch), 0);
  const busy = launches.reduce((sum, launch) => sum + launch.ms, 0);
  const totals = totalsOf(launches);
  return (
    <>
      <p id="timeline-sum">
        {rows === 1 ? 'A step' : `A run of ${rows.toLocaleString('en')} rows`} behind {plural(past, 'token')} takes{' '}
        <strong>{time(ms)}</strong> in {plural(launches.length, 'kernel')}, {share(busy, ms)} of it inside of them. Each
        is timed by itself here; in a chat they follow each other without pauses, which takes less. The step cannot do
        without moving {bytes(moved)}: {bandwidth(moved, ms)}. Times are the mean of {plural(runs, 'run')}.
        {clockMs > FINE_MS &&
          ` This browser rounds the GPU’s clock to ${time(clockMs)}: a shorter kernel’s time is only known about, and sums below better than single kernels.`}
      </p>
      <TimelinePicture launches={launches} />
      <DataTable
        caption="Time by kernel, of all layers together"
        head={['Step', 'Kernel', 'How many', 'Time', 'Share', 'Bytes moved', 'Bandwidth']}
        rows={totals.map((total) => [
          total.role,
          total.kernel,
          total.launches,
          time(total.ms),
          share(total.ms, busy),
          bytes(total.bytes),
          bandwidth(total.bytes, total.ms),
        ])}
      />
    </>
  );
}
