/** What is inspected. Only functions of this module change its signals. */

import { computed, signal } from '@preact/signals';
import { inspect } from 'rlx-wasm/inspect';
import type { InspectedProgram, Inspection, InspectOptions, InspectPhase } from 'rlx-wasm/inspect';
import { failureOf, loaded } from '../state/engine.js';
import type { Failure, Source } from '../state/engine.js';
import type { Followed } from './lines.js';

/** A network whose headers were read. */
export interface Opened {
  source: Source;
  inspection: Inspection;
}

export const opened = signal<Opened | undefined>(undefined);
/** The model whose headers are being read. */
export const opening = signal<Source | undefined>(undefined);
/** What is waited for meanwhile. */
export const phase = signal<InspectPhase>('compiler');
export const failed = signal<Failure | undefined>(undefined);
/** The program that is shown. */
export const shown = signal<InspectedProgram | undefined>(undefined);
export const query = signal('');
export const followed = signal<Followed | undefined>(undefined);
/** Where programs are compiled for. */
export const target = signal<'webgpu' | 'cpu'>(loaded.value?.engine.info().device ?? 'cpu');
export const name = computed(() => opened.value?.source.name ?? opening.value?.name);

let abort: AbortController | undefined;

/** The options with which an engine was loaded, so that its programs are the ones that are shown. */
function optionsOf(source: Source): Partial<InspectOptions> {
  if (source !== loaded.value?.source) return {};
  const { device, kv, activations, contextLength } = loaded.value.engine.info();
  return device === target.value ? { kv, activations, contextLength } : { contextLength };
}

/** Reads a model's headers and shows its first program. */
export async function open(source: Source): Promise<void> {
  abort?.abort();
  const own = (abort = new AbortController());
  failed.value = undefined;
  opening.value = source;
  phase.value = 'compiler';
  try {
    const inspection = await inspect({
      model: source.model,
      device: target.value,
      ...optionsOf(source),
      signal: own.signal,
      onPhase: (now) => {
        if (abort === own) phase.value = now;
      },
    });
    if (own.signal.aborted) return inspection.dispose(); // another one was chosen
    opened.value?.inspection.dispose();
    opened.value = { source, inspection };
    followed.value = undefined;
    show(inspection.programs[0]!);
  } catch (error) {
    if (own.signal.aborted) return;
    failed.value = failureOf(error);
  }
  if (abort === own) opening.value = undefined;
}

/** Shows a program of the model. */
export function show(program: string): void {
  if (!opened.value) return;
  failed.value = undefined;
  try {
    shown.value = opened.value.inspection.program(program);
  } catch (error) {
    failed.value = failureOf(error);
  }
}

/** Compiles the same model for the other device. */
export function compileFor(device: 'webgpu' | 'cpu'): void {
  target.value = device;
  const source = opening.value ?? opened.value?.source;
  if (source) void open(source);
}

/** Frees what the view had. */
export function close(): void {
  abort?.abort();
  opening.value = undefined;
  opened.value?.inspection.dispose();
  opened.value = undefined;
  shown.value = undefined;
  failed.value = undefined;
  followed.value = undefined;
}
