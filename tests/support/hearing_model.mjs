// A tiny model that hears, with the letters of a vocabulary: the files of its folder, for a server.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const fixtures = fileURLToPath(new URL('../fixtures/', import.meta.url));

/** Paths below `folder`, which has `/` at its ends, and what they have. */
export function hearingModel(folder, model = 'wav2vec2_stable') {
  const { files } = JSON.parse(readFileSync(join(fixtures, 'sound/pieces.json'), 'utf8'));
  // Those that say nothing are there so that no request for them fails, which a page's console would tell of.
  const empty = ['preprocessor_config.json', 'special_tokens_map.json', 'added_tokens.json'].map((name) => [name, {}]);
  const small = [...Object.entries(files), ...empty].map(([name, json]) => [`${folder}${name}`, Buffer.from(JSON.stringify(json))]);
  const large = ['config.json', 'model.safetensors'].map((name) => [`${folder}${name}`, readFileSync(join(fixtures, model, name))]);
  return Object.fromEntries([...small, ...large]);
}
