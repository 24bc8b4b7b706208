/** Speech to text, of a microphone or a file: nothing of it leaves the page. */

import { useEffect } from 'preact/hooks';
import { ViewFrame } from '../ui/view_frame.js';
import { ModelPart } from './model_part.js';
import { SoundPart } from './sound_part.js';
import { leave } from './state.js';
import { TextPart } from './text_part.js';
import '../styles/search.css';
import '../styles/talk.css';

export default function TalkView() {
  useEffect(() => leave, []);
  return (
    <ViewFrame name="talk" heading="Speech to text">
      <p class="hint">
        A model writes down what it hears, on this device. Nothing of your voice or your files leaves this page.
      </p>
      <div class="needs">
        <ModelPart />
        <SoundPart />
      </div>
      <TextPart />
    </ViewFrame>
  );
}
