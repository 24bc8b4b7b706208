/** The kernels of a timed step, by layers and by kinds. */

import type { TracedLaunch } from 'rlx-wasm/inspect';
import { bytes } from '../ui/format.js';
import { layerOf } from './lines.js';

/** Kernels of one layer that ran one after another, or kernels outside of layers. */
export interface Group {
  /** `blk.0`, or the first kernel's label. */
  name: string;
  launches: readonly TracedLaunch[];
  startMs: number;
  /** From the first begin to the last end. */
  ms: number;
}

/** Equal steps of all layers. */
export interface Total {
  /** The label without its layer. */
  role: string;
  kernel: string;
  launches: number;
  ms: number;
  bytes: number;
}

export type Kind = 'product' | 'attention' | 'other';

const endOf = (launches: readonly TracedLaunch[]) => Math.max(...launches.map(({ startMs, ms }) => startMs + ms));

export function groupsOf(launches: readonly TracedLaunch[]): Group[] {
  const groups: { layer: string; launches: TracedLaunch[] }[] = [];
  for (const launch of launches) {
    const layer = layerOf(launch.label);
    const last = groups.at(-1);
    if (last && last.layer === layer) last.launches.push(launch);
    else groups.push({ layer, launches: [launch] });
  }
  return groups.map(({ layer, launches }) => {
    const startMs = Math.min(...launches.map((each) => each.startMs));
    return { name: layer || launches[0]!.label, launches, startMs, ms: endOf(launches) - startMs };
  });
}

/** Sums, the longest first. */
export function totalsOf(launches: readonly TracedLaunch[]): Total[] {
  const totals = new Map<string, Total>();
  for (const { label, kernel, ms, readBytes, writtenBytes } of launches) {
    const layer = layerOf(label);
    const role = layer === '' ? label : label.slice(label.indexOf(layer) + layer.length + 1) || label;
    const key = `${role} ${kernel}`;
    const total = totals.get(key) ?? { role, kernel, launches: 0, ms: 0, bytes: 0 };
    total.launches += 1;
    total.ms += ms;
    total.bytes += readBytes + writtenBytes;
    totals.set(key, total);
  }
  return [...totals.values()].sort((a, b) => b.ms - a.ms);
}

export function kindOf({ operator }: TracedLaunch): Kind {
  return operator.includes('attention') ? 'attention' : operator.includes('matmul') ? 'product' : 'other';
}

export const bytesOf = ({ readBytes, writtenBytes }: TracedLaunch): number => readBytes + writtenBytes;

/** What a kernel moves in a second, in words; a dash where the clock saw no time pass. */
export function bandwidth(moved: number, ms: number): string {
  if (ms <= 0) return '–';
  return `${bytes(Math.round((moved / ms) * 1000))}/s`;
}

export function time(ms: number): string {
  if (ms < 0.9995) return `${(ms * 1000).toFixed(ms < 0.01 ? 1 : 0)} µs`;
  return ms < 1000 ? `${ms.toFixed(ms < 10 ? 2 : 1)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

export function share(ms: number, of: number): string {
  return of > 0 ? `${((100 * ms) / of).toFixed(1)} %` : '–';
}
