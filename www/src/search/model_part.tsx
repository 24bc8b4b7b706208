/** Which model reads. */

import { ModelPart as Part } from '../models/model_part.js';
import { OFFERED, slot } from './model.js';

export function ModelPart() {
  return (
    <Part
      use="search"
      slot={slot}
      offered={OFFERED}
      does={({ width }) => `makes ${width} numbers of each passage,`}
      where={(model) => model}
    >
      reads English, 22 million parameters, {OFFERED.license}. It comes from the Hugging Face Hub once and is kept in
      this browser.
    </Part>
  );
}
