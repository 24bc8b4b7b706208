/** Pictures of words: nothing of them leaves the page. */

import { ViewFrame } from '../ui/view_frame.js';
import { ModelPart } from './model_part.js';
import { Picture } from './picture.js';
import { PromptPart } from './prompt_part.js';
import '../styles/needs.css';
import '../styles/draw.css';

export default function DrawView() {
  return (
    <ViewFrame name="draw" heading="Words to picture">
      <p class="hint">
        Write what a picture shows, and a model draws it on this device. Nothing of your words or your pictures leaves
        this page.
      </p>
      <div class="needs">
        <ModelPart />
        <PromptPart />
      </div>
      <Picture />
    </ViewFrame>
  );
}
