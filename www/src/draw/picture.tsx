/** The picture: how far it is, what it shows so far, and what can be done with it. */

import { useLayoutEffect, useRef } from 'preact/hooks';
import type { PipelineModel } from 'rlx-wasm';
import { bytes, milliseconds, plural } from '../ui/format.js';
import { drawing, form, picture, preview, stop } from './state.js';
import type { Drawing, Picture as Done } from './state.js';

/** What each model of the pipeline does. */
const DOES: { readonly [model in PipelineModel]: string } = {
  text_encoder: 'the model that reads the words',
  transformer: 'the model that draws',
  vae: 'the model that makes pixels',
};

export function Picture() {
  const [now, done] = [drawing.value, picture.value];
  const bitmap = preview.value ?? done?.bitmap;
  if (!now && !done) return null;
  const prompt = now && preview.value ? now.order.prompt : done?.order.prompt;
  return (
    <section class="drawn" aria-labelledby="draw-picture">
      <h2 id="draw-picture" class="hidden">
        The picture
      </h2>
      {now && <Running drawing={now} />}
      {bitmap && <Drawn bitmap={bitmap} prompt={prompt ?? ''} old={now !== undefined && !preview.value} />}
      {!now && done && <Told done={done} />}
    </section>
  );
}

function Running({ drawing: { loading, step, steps, order } }: { drawing: Drawing }) {
  const all = steps ?? order.steps ?? 0;
  const told = loading
    ? `Loading ${DOES[loading.model]}`
    : step === undefined
      ? 'Reading the words'
      : step < all
        ? `Step ${step} of ${all} is done`
        : 'Making pixels of it';
  const { loadedBytes = 0, totalBytes } = loading?.progress ?? {};
  return (
    <>
      <p id="draw-told" role="status">
        {told}
      </p>
      <progress max={1} aria-label="Steps done" value={(step ?? 0) / Math.max(1, all)} />
      <div class="row">
        <p class="hint grow">{loading && `${bytes(loadedBytes)}${totalBytes ? ` of ${bytes(totalBytes)}` : ''}`}</p>
        <button id="draw-stop" type="button" onClick={stop}>
          Stop
        </button>
      </div>
    </>
  );
}

function Drawn({ bitmap, prompt, old }: { bitmap: ImageBitmap; prompt: string; old: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width, height } = bitmap;
  useLayoutEffect(() => {
    canvas.current!.getContext('2d')!.drawImage(bitmap, 0, 0);
    canvas.current!.style.setProperty('--aspect', String(width / height));
  }, [bitmap]);
  return (
    <canvas
      id="draw-canvas"
      ref={canvas}
      class={old ? 'old' : ''}
      width={width}
      height={height}
      role="img"
      aria-label={`A picture of: ${prompt}`}
    />
  );
}

function Told({ done }: { done: Done }) {
  const { order, steps, bitmap, milliseconds: took } = done;
  return (
    <>
      <p id="draw-done" role="status">
        {bitmap.width} by {bitmap.height} pixels, {plural(steps, 'step')}, seed {order.seed}, in {milliseconds(took)}.
      </p>
      <div class="row">
        <button id="draw-save" type="button" class="primary" onClick={() => save(done)}>
          Save as PNG
        </button>
        <button id="draw-keep" type="button" onClick={() => (form.seed.value = String(order.seed))}>
          Keep this seed
        </button>
      </div>
    </>
  );
}

function save({ png, order }: Done): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(png);
  link.download = nameOf(order.prompt, order.seed);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** The name of the file that is saved: the first words, and the seed. */
const nameOf = (prompt: string, seed: number): string => {
  const words = prompt
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()
    .slice(0, 40)
    .trim();
  return `${words || 'picture'}, ${seed}.png`;
};
