/** The settings of the conversation in view. */

import { useState } from 'preact/hooks';
import { change, current } from '../state/conversations.js';
import { refusal, SETTINGS } from '../state/settings.js';
import type { Setting } from '../state/settings.js';
import { Dialog } from '../ui/dialog.js';
import { FunctionsSetting } from './functions_setting.js';

export default function SettingsDrawer({ onClose }: { onClose: () => void }) {
  const { id, system, settings } = current.value;
  // Fields are made anew when all values are left to the model.
  const [turn, setTurn] = useState(0);
  const any = Object.keys(settings).length > 0;
  return (
    <Dialog title="Settings of this chat" kind="side" onClose={onClose}>
      <label class="field">
        <span>System prompt</span>
        <textarea
          id="system"
          rows={5}
          dir="auto"
          defaultValue={system}
          placeholder="How the model should answer. Not every model heeds it."
          onInput={(event) => change(id, (it) => ({ ...it, system: event.currentTarget.value }), false)}
        />
      </label>
      <FunctionsSetting />
      <h3>How tokens are chosen</h3>
      <p class="hint">An empty field is left to the model.</p>
      {SETTINGS.map((setting) => (
        <Field key={`${setting.name} ${turn}`} setting={setting} />
      ))}
      <div class="row">
        <button
          type="button"
          disabled={!any}
          onClick={() => {
            change(id, (it) => ({ ...it, settings: {} }), false);
            setTurn(turn + 1);
          }}
        >
          Leave all to the model
        </button>
      </div>
    </Dialog>
  );
}

function Field({ setting }: { setting: Setting }) {
  const { name, label, help, step } = setting;
  const { id, settings } = current.value;
  const [fault, setFault] = useState<string>();
  const set = (field: HTMLInputElement) => {
    const text = field.value.trim();
    // A number field has no text as long as what is in it is no number.
    const refused = field.validity.badInput
      ? `${label} is a number.`
      : text === ''
        ? undefined
        : refusal(setting, Number(text));
    setFault(refused);
    if (refused) return;
    change(
      id,
      (it) => {
        const { [name]: _, ...others } = it.settings;
        return { ...it, settings: text === '' ? others : { ...others, [name]: Number(text) } };
      },
      false,
    );
  };
  return (
    <label class="field number">
      <span>{label}</span>
      <input
        id={`setting-${name}`}
        type="number"
        inputMode="decimal"
        min={setting.min}
        max={setting.max}
        step={step}
        placeholder="model’s"
        defaultValue={settings[name] === undefined ? '' : String(settings[name])}
        aria-describedby={`help-${name}`}
        aria-invalid={fault !== undefined}
        onInput={(event) => set(event.currentTarget)}
      />
      <small id={`help-${name}`} class={fault ? 'fault' : undefined} role={fault ? 'alert' : undefined}>
        {fault ?? help}
      </small>
    </label>
  );
}
