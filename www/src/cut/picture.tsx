/** The photo: a click or a key shows a place of the thing, a drag a box around it; what is not of the thing is dimmed. */

import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { finding, found, looking, photo, showBox, shown, showPoint, undo } from './state.js';
import type { Box } from './state.js';

type Place = [x: number, y: number];

/** Whether a click shows the thing (1), or what is beside it (0). */
export const label = signal<0 | 1>(1);
/** The place that keys move; there is none before the first key. */
const cursor = signal<Place | undefined>(undefined);
/** Where a box begins, and where it would end now. */
const draft = signal<{ from: Place; to: Place; dragged: boolean } | undefined>(undefined);

/** Most pixels along an edge of what is drawn. */
const DRAWN = 1600;
/** Pixels of the screen from which on a click is a drag. */
const DRAG = 6;

const boxOf = ([ax, ay]: Place, [bx, by]: Place): Box => [
  Math.min(ax, bx),
  Math.min(ay, by),
  Math.max(ax, bx),
  Math.max(ay, by),
];

export function Picture() {
  const { name, bitmap } = photo.value!;
  const { width, height } = bitmap;
  const whole = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    whole.current!.style.setProperty('--aspect', String(width / height));
    cursor.value = draft.value = undefined;
  }, [bitmap]);

  const placeOf = (event: PointerEvent): Place => {
    const { left, top, width: across, height: down } = whole.current!.getBoundingClientRect();
    const along = (part: number, size: number) => Math.max(0, Math.min(size, part * size));
    return [along((event.clientX - left) / across, width), along((event.clientY - top) / down, height)];
  };
  const onPointerDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const from = placeOf(event);
    draft.value = { from, to: from, dragged: false };
    cursor.value = undefined;
    // A finger that moves scrolls the page.
    if (event.pointerType !== 'touch') whole.current!.setPointerCapture(event.pointerId);
  };
  const onPointerMove = (event: PointerEvent) => {
    const now = draft.value;
    if (!now || event.pointerType === 'touch') return;
    const to = placeOf(event);
    const screen = whole.current!.clientWidth / width;
    const far = Math.hypot(to[0] - now.from[0], to[1] - now.from[1]) * screen > DRAG;
    draft.value = { ...now, to, dragged: now.dragged || far };
  };
  const onPointerUp = (event: PointerEvent) => {
    const now = draft.value;
    draft.value = undefined;
    if (!now) return;
    if (now.dragged) frame(now.from, placeOf(event));
    else showPoint(...now.from, event.shiftKey || event.altKey ? 0 : label.value);
  };
  const frame = (from: Place, to: Place) => {
    const box = boxOf(from, to);
    if (box[0] < box[2] && box[1] < box[3]) showBox(box);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const at = cursor.value ?? [width / 2, height / 2];
    const step = Math.max(width, height) / (event.shiftKey ? 250 : 40);
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (move) {
      const along = (i: 0 | 1, size: number) => Math.max(0, Math.min(size, at[i] + move[i]! * step));
      cursor.value = [along(0, width), along(1, height)];
      if (draft.value) draft.value = { ...draft.value, to: cursor.value };
    } else if (event.key === 'Enter') {
      cursor.value = at;
      showPoint(...at, event.shiftKey ? 0 : label.value);
    } else if (event.key === 'b') {
      cursor.value = at;
      if (draft.value) frame(draft.value.from, at);
      draft.value = draft.value ? undefined : { from: at, to: at, dragged: true };
    } else if (event.key === 'Escape' && draft.value) draft.value = undefined;
    else if (event.key === 'Backspace') undo();
    else return;
    event.preventDefault();
  };

  return (
    <div
      id="cut-picture"
      class="picture"
      ref={whole}
      tabIndex={0}
      role="application"
      aria-label={`The photo ${name}`}
      aria-describedby="cut-keys"
      aria-busy={looking.value || finding.value}
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerUp={onPointerUp}
      onPointerCancel={() => (draft.value = undefined)}
      onKeyDown={onKeyDown}
    >
      <Drawn bitmap={bitmap} />
      <Marks width={width} height={height} />
    </div>
  );
}

function Drawn({ bitmap }: { bitmap: ImageBitmap }) {
  const [below, above] = [useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null)];
  const scale = Math.min(1, DRAWN / Math.max(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((n) => Math.max(1, Math.round(n * scale))) as Place;
  const mask = found.value?.mask;
  useLayoutEffect(() => below.current!.getContext('2d')!.drawImage(bitmap, 0, 0, width, height), [bitmap]);
  useLayoutEffect(() => {
    const context = above.current!.getContext('2d')!;
    context.clearRect(0, 0, width, height);
    if (!mask) return;
    context.globalCompositeOperation = 'source-over';
    context.fillStyle = 'rgb(0 0 0 / 65%)';
    context.fillRect(0, 0, width, height);
    context.globalCompositeOperation = 'destination-out';
    context.drawImage(mask, 0, 0, width, height);
  }, [bitmap, mask]);
  return (
    <>
      <canvas ref={below} width={width} height={height} aria-hidden="true" />
      <canvas ref={above} width={width} height={height} aria-hidden="true" class="over" />
    </>
  );
}

function Marks({ width, height }: { width: number; height: number }) {
  const { points, box } = shown.value;
  const unit = Math.max(width, height) / 80;
  const frame = draft.value?.dragged ? boxOf(draft.value.from, draft.value.to) : box;
  const at = cursor.value;
  return (
    <svg class="over" viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      {frame && <rect x={frame[0]} y={frame[1]} width={frame[2] - frame[0]} height={frame[3] - frame[1]} />}
      {points.map((point, i) => (
        <circle key={i} class={point.label ? 'of' : 'beside'} cx={point.x} cy={point.y} r={unit} />
      ))}
      {at && <path d={`M${at[0] - 2 * unit} ${at[1]}h${4 * unit}M${at[0]} ${at[1] - 2 * unit}v${4 * unit}`} />}
    </svg>
  );
}
