/** A look inside a model: what the compiler makes of it at every stage, from its headers alone. */

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { OwnModel } from '../models/own_model.js';
import { loaded, loading } from '../state/engine.js';
import { Icon } from '../ui/icons.js';
import { ViewFrame } from '../ui/view_frame.js';
import { Listing } from './listing.js';
import { Memory } from './memory.js';
import { Dispatch, Fusion } from './reports.js';
import { Shaders } from './shaders.js';
import { Timeline } from './timeline.js';
import {
  close,
  compileFor,
  failed,
  followed,
  name,
  open,
  opened,
  opening,
  phase,
  query,
  show,
  shown,
  target,
} from './state.js';
import '../styles/inspect.css';

const TABS = {
  stages: 'Stages',
  fusion: 'Fusion',
  operators: 'Operators',
  memory: 'Memory',
  shaders: 'Shaders',
  timeline: 'Timeline',
} as const;
/** What a first look waits for. `npm start` makes the compiler's build only when a page asks for it. */
const WAITS = {
  compiler: (_: string) =>
    import.meta.env.DEV
      ? 'Waiting for the compiler. Under npm start it is built first, which takes about two minutes the first time; the terminal shows how far it is'
      : 'Fetching the compiler, about 1 MB, the first time only',
  headers: (name: string) => `Reading the headers of ${name}`,
  compile: (name: string) => `Compiling ${name}`,
};
const tab = signal<keyof typeof TABS>('stages');

export default function InspectView() {
  useEffect(() => {
    const source = loaded.value?.source ?? loading.value?.source;
    if (source) void open(source);
    return close;
  }, []);
  const heading = name.value ? (
    <>
      Inside <bdi>{name.value}</bdi>
    </>
  ) : (
    'Inside a model'
  );
  return (
    <ViewFrame name="inspect" heading={heading}>
      {opened.value ? (
        <Controls />
      ) : (
        <p class="hint">
          What the compiler makes of a model: blocks, operators, steps. Its headers are enough; no weights are fetched.
        </p>
      )}
      <p role="status" class="hint">
        {opening.value ? WAITS[phase.value](opening.value.name) : ''}
      </p>
      {failed.value && (
        <p id="inspect-error" class="fault" role="alert">
          <strong>{failed.value.what}</strong> {failed.value.hint}
        </p>
      )}
      {shown.value && <Tabs />}
      <details class="another" open={!opened.value && !opening.value}>
        <summary>Look inside another model</summary>
        <OwnModel onChoose={(source) => void open(source)} use="inspect" />
      </details>
    </ViewFrame>
  );
}

function Controls() {
  const { inspection } = opened.value!;
  return (
    <div class="row controls">
      <label>
        <span>Program</span>
        <select id="program" value={shown.value?.name} onChange={(event) => show(event.currentTarget.value)}>
          {inspection.programs.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <label>
        <span>Compiled for</span>
        <select
          id="target"
          value={target.value}
          onChange={(event) => compileFor(event.currentTarget.value as 'webgpu' | 'cpu')}
        >
          <option value="webgpu">WebGPU</option>
          <option value="cpu">CPU</option>
        </select>
      </label>
      <label class="search">
        <span>Find</span>
        <input
          id="find"
          type="search"
          value={query.value}
          placeholder="attn_q, matmul, %12"
          onInput={(event) => (query.value = event.currentTarget.value)}
        />
      </label>
      <details class="hint">
        <summary>Its limits</summary>
        <bdi>{inspection.target}</bdi>
      </details>
    </div>
  );
}

function Tabs() {
  const program = shown.value!;
  const there = (Object.keys(TABS) as (keyof typeof TABS)[]).filter((each) => each !== 'shaders' || program.kernels);
  const now = there.includes(tab.value) ? tab.value : 'stages';
  const key = program.name + program.fingerprint;
  return (
    <>
      <div class="row" role="group" aria-label="What to show">
        {there.map((each) => (
          <button key={each} type="button" aria-pressed={each === now} onClick={() => (tab.value = each)}>
            {TABS[each]}
          </button>
        ))}
        {now === 'stages' && <Following />}
      </div>
      {now === 'stages' && (
        <div class="stages">
          {program.hir !== null && <Listing key={`hir ${key}`} stage="hir" title="HIR: blocks" text={program.hir} />}
          <Listing key={`mir ${key}`} stage="mir" title="MIR: operators" text={program.mir} />
          <Listing key={`lir ${key}`} stage="lir" title="LIR: steps" text={program.lir} />
        </div>
      )}
      {now === 'fusion' && <Fusion report={program.fusion} />}
      {now === 'operators' && <Dispatch report={program.dispatch} />}
      {now === 'memory' && <Memory program={program} />}
      {now === 'timeline' && <Timeline key={key} program={program} />}
      {now === 'shaders' && program.kernels && <Shaders key={key} kernels={program.kernels} />}
    </>
  );
}

function Following() {
  const of = followed.value;
  if (!of)
    return (
      <span id="following-how" class="hint">
        Press a name to follow it; a label is followed through all stages. By keyboard: arrows go from name to name,
        Enter follows, Escape stops.
      </span>
    );
  return (
    <span class="hint" role="status">
      Following <code>{of.label ?? of.name}</code>
      <button type="button" class="quiet" aria-label="Stop following" onClick={() => (followed.value = undefined)}>
        <Icon name="close" />
      </button>
    </span>
  );
}
