/** Which pipeline draws. */

import { ModelPart as Part } from '../models/model_part.js';
import { OFFERED, slot } from './model.js';

export function ModelPart() {
  return (
    <Part use="draw" slot={slot} offered={OFFERED} does={() => 'draws'} where={(model) => model}>
      draws in four steps, {OFFERED.license}. It is three models, 16 GB, which come from the Hugging Face Hub once and
      are kept in this browser. The largest two have 8 GB each. This view needs WebGPU, and a GPU with memory for one of
      them and for the computation: most devices have less.
    </Part>
  );
}
