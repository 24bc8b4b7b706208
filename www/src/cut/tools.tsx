/** What is said of the photo and of what was found, and what can be done with it. */

import { useState } from 'preact/hooks';
import { milliseconds, plural } from '../ui/format.js';
import { say } from '../state/news.js';
import { cutOut, nameOf } from './cut_out.js';
import { model } from './model.js';
import { label } from './picture.js';
import { canUndo, clear, found, looked, looking, photo, shown, showWords, undo } from './state.js';
import type { Shown } from './state.js';

export function Tools() {
  const nothing = isNothing(shown.value);
  const words = model.value?.knowsWords ?? false;
  return (
    <div class="cut-tools">
      {words && <Words key={String(nothing)} />}
      <div class="row">
        {!words && (
          <fieldset class="choice">
            <legend class="hidden">A click shows</legend>
            <Choice value={1} text="The thing" />
            <Choice value={0} text="Not this" />
          </fieldset>
        )}
        <button id="cut-undo" type="button" disabled={!canUndo()} onClick={undo}>
          Undo
        </button>
        <button id="cut-clear" type="button" disabled={nothing} onClick={clear}>
          Start over
        </button>
        <button id="cut-save" type="button" class="primary" disabled={!found.value} onClick={() => void save()}>
          Save as PNG
        </button>
        <button id="cut-copy" type="button" disabled={!found.value} onClick={() => void copy()}>
          Copy
        </button>
      </div>
      <p id="cut-keys" class="hint">
        {words
          ? 'Words find every thing that they mean, a box around one such thing finds those like it. By keys: arrows move a cross (with Shift a little), B sets two corners of a box, Backspace takes a step back.'
          : 'Click on the thing, or drag a box around it. “Not this”, or Shift with the click, leaves something out. By keys: arrows move a cross (with Shift a little), Enter is a click, B sets two corners of a box, Backspace takes a step back.'}
      </p>
    </div>
  );
}

/** Where things stand, above the photo. */
export function Told() {
  return (
    <p id="cut-told" role="status">
      {told(isNothing(shown.value))}
    </p>
  );
}

function Choice({ value, text }: { value: 0 | 1; text: string }) {
  return (
    <label>
      <input type="radio" name="cut-label" checked={label.value === value} onChange={() => (label.value = value)} />
      {text}
    </label>
  );
}

const isNothing = ({ points, box, words }: Shown): boolean => points.length === 0 && !box && words === '';

/** What is to be found, in words. */
function Words() {
  const [text, setText] = useState(shown.peek().words);
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim() !== '') showWords(text);
      }}
    >
      <label class="field grow">
        <span>What to find, in English</span>
        <input
          id="cut-words"
          type="text"
          autocomplete="off"
          placeholder="red car"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button id="cut-find" type="submit" disabled={text.trim() === ''}>
        Find
      </button>
    </form>
  );
}

function told(nothing: boolean): string {
  if (!model.value) return 'Load a model, and it finds what you click on.';
  if (looking.value) return 'The model looks at the photo, once.';
  if (looked.value === undefined) return '';
  const words = model.value.knowsWords;
  if (nothing) {
    const next = words ? 'Write what to find in it.' : 'Click on a thing in it.';
    return `The model looked at the photo for ${milliseconds(looked.value)}. ${next}`;
  }
  if (!found.value) return 'Finding';
  const { part, score, count, milliseconds: took } = found.value;
  if (count === 0) return 'The model found no such thing. Try other words, or drag a box around one.';
  if (part === 0) return 'Nothing was found there. Click elsewhere, or drag a box.';
  const percent = part < 0.01 ? 'less than 1' : Math.round(part * 100);
  if (words) return `Found ${plural(count, 'thing')}, ${percent} % of the photo, in ${milliseconds(took)}.`;
  return `Found ${percent} % of the photo in ${milliseconds(took)}. The model is ${Math.round(Math.min(1, Math.max(0, score)) * 100)} % sure of its edge.`;
}

async function save(): Promise<void> {
  const { name, bitmap } = photo.value!;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await cutOut(bitmap, found.value!.mask));
  link.download = nameOf(name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function copy(): Promise<void> {
  try {
    // Safari wants the promise: what is awaited before has used the click up.
    await navigator.clipboard.write([
      new ClipboardItem({ 'image/png': cutOut(photo.value!.bitmap, found.value!.mask) }),
    ]);
    say('The cut-out is in the clipboard.');
  } catch {
    say('The browser does not let this page copy. Save it as a file.');
  }
}
