/** Which model finds things. */

import { ModelPart as Part } from '../models/model_part.js';
import { OFFERED, slot } from './model.js';

export function ModelPart() {
  return (
    <Part use="cut" slot={slot} offered={OFFERED} does={() => 'runs'} where={(model) => model}>
      finds things of any kind, 94 million parameters, {OFFERED.license}. It comes from the Hugging Face Hub once and is
      kept in this browser. It wants a GPU: without one it looks at a photo for minutes. A SAM 3 of your own finds
      things by words.
    </Part>
  );
}
