/** What is drawn, and how: words, size, steps, seed. */

import type { Signal } from '@preact/signals';
import { model } from './model.js';
import { draw, drawing, failure, form } from './state.js';

export function PromptPart() {
  const by = model.value;
  return (
    <section class="need" aria-labelledby="draw-words">
      <h2 id="draw-words">Picture</h2>
      <form
        id="draw-form"
        onSubmit={(event) => {
          event.preventDefault();
          void draw();
        }}
      >
        <label class="field">
          <span>What it shows</span>
          <textarea
            id="draw-prompt"
            rows={3}
            dir="auto"
            placeholder="A red fox in deep snow, morning light"
            value={form.prompt.value}
            onInput={(event) => (form.prompt.value = event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
              event.preventDefault();
              event.currentTarget.form!.requestSubmit();
            }}
          />
        </label>
        <div class="draw-numbers">
          <NumberField
            id="draw-width"
            name="Width"
            of={form.width}
            least={by?.sizeStep}
            step={by?.sizeStep}
            most={4096}
            needed
          />
          <NumberField
            id="draw-height"
            name="Height"
            of={form.height}
            least={by?.sizeStep}
            step={by?.sizeStep}
            most={4096}
            needed
          />
          <NumberField
            id="draw-steps"
            name="Steps"
            of={form.steps}
            least={1}
            most={1000}
            none={String(by?.usualSteps ?? '')}
          />
          <NumberField
            id="draw-seed"
            name="Seed"
            of={form.seed}
            least={0}
            most={Number.MAX_SAFE_INTEGER}
            none="by chance"
          />
        </div>
        <label class="check">
          <input
            id="draw-preview"
            type="checkbox"
            checked={form.preview.value}
            onChange={(event) => (form.preview.value = event.currentTarget.checked)}
          />
          Show every step (slower, and takes more memory)
        </label>
        <div class="row">
          <button
            id="draw-go"
            type="submit"
            class="primary"
            disabled={!by || drawing.value !== undefined || form.prompt.value.trim() === ''}
          >
            Draw
          </button>
          {!by && <p class="hint grow">A model comes first.</p>}
        </div>
      </form>
      {failure.value && (
        <p id="draw-error" class="fault" role="alert">
          <strong>{failure.value.what}</strong> {failure.value.hint}
        </p>
      )}
    </section>
  );
}

interface Field {
  id: string;
  name: string;
  of: Signal<string>;
  least?: number | undefined;
  most: number;
  step?: number | undefined;
  /** What an empty field means. */
  none?: string;
  needed?: boolean;
}

function NumberField({ id, name, of, least = 1, most, step = 1, none = '', needed = false }: Field) {
  return (
    <label class="field">
      <span>{name}</span>
      <input
        id={id}
        type="number"
        inputMode="numeric"
        min={least}
        max={most}
        step={step}
        placeholder={none}
        required={needed}
        value={of.value}
        onInput={(event) => (of.value = event.currentTarget.value)}
      />
    </label>
  );
}
