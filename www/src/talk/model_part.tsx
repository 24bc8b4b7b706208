/** Which model hears. */

import { ModelPart as Part } from '../models/model_part.js';
import { OFFERED, slot } from './model.js';

export function ModelPart() {
  return (
    <Part use="talk" slot={slot} offered={OFFERED} does={() => 'listens'} where={({ info }) => info}>
      hears English, 95 million parameters, {OFFERED.license}, and writes capital letters without punctuation. It comes
      from the Hugging Face Hub once and is kept in this browser.
    </Part>
  );
}
