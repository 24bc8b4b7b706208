/** Small tasks of the package with the loaded model: answers of a form, and how a text is split. */

import { loaded, loading } from '../state/engine.js';
import { ViewFrame } from '../ui/view_frame.js';
import { Forms } from './forms.js';
import { Tokens } from './tokens.js';
import '../styles/try.css';

export default function TryView() {
  const name = loaded.value?.source.name ?? loading.value?.source.name;
  const heading = name ? (
    <>
      Try <bdi>{name}</bdi>
    </>
  ) : (
    'Try a model'
  );
  return (
    <ViewFrame name="try" heading={heading}>
      {!name && <p class="hint">No model is loaded: choose one in the chat.</p>}
      <div class="parts">
        <Forms />
        <Tokens />
      </div>
    </ViewFrame>
  );
}
