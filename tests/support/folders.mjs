// Folders of language models, as transformers writes them, from the recorded fixtures: the small files that these lack
// are made here.

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const fixtures = fileURLToPath(new URL('../fixtures/', import.meta.url));
/** A file of a fixture's folder, or of one at a path of its own. */
const read = (fixture, name) => readFileSync(resolve(fixtures, fixture, name));

/** The header of a safetensors file, and the bytes behind it. */
function opened(bytes) {
  const length = Number(bytes.readBigUInt64LE(0));
  return { header: JSON.parse(bytes.toString('utf8', 8, 8 + length)), data: bytes.subarray(8 + length) };
}

/** A safetensors file of some tensors of another. */
function part({ header, data }, names) {
  let at = 0;
  const entries = names.map((name) => {
    const { data_offsets: [from, to], ...rest } = header[name];
    return [name, { ...rest, data_offsets: [at, at += to - from] }];
  });
  const json = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, ...names.map((name) => data.subarray(...header[name].data_offsets))]);
}

/** Recorded numbers of a fixture, by name; undefined for what it has no record of. */
export function recorded(fixture) {
  const { header, data } = opened(read(fixture, 'io.safetensors'));
  return (name) => {
    if (!header[name]) return undefined;
    const { dtype, data_offsets: [from, to] } = header[name];
    const [bytes, at] = dtype === 'I64' ? [8, (i) => Number(data.readBigInt64LE(i))] : [4, (i) => data.readFloatLE(i)];
    return Array.from({ length: (to - from) / bytes }, (_, i) => at(from + bytes * i));
  };
}

/** A text with the tokens of these ids, for the tokenizer of `folder`. */
export const textOf = (ids) => ids.map((id) => `<${id}>`).join('');

/**
 * The files of a fixture's folder by name. Each of its tokens is its number between brackets. With `shards` there are
 * several files of weights and their index.
 */
export function folder(fixture, { shards = 1 } = {}) {
  const { vocab_size: vocabulary } = JSON.parse(read(fixture, 'config.json'));
  const tokens = Array.from({ length: vocabulary }, (_, id) => ({ id, content: `<${id}>`, special: false, normalized: false }));
  const tokenizer = {
    added_tokens: tokens,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
    decoder: { type: 'ByteLevel' },
    model: { type: 'BPE', vocab: Object.fromEntries(tokens.map(({ id, content }) => [content, id])), merges: [] },
  };
  const json = (value) => Buffer.from(JSON.stringify(value));
  const files = {
    'config.json': read(fixture, 'config.json'),
    'tokenizer.json': json(tokenizer),
    'tokenizer_config.json': json({ bos_token: '<1>', add_bos_token: false }),
    'generation_config.json': json({ temperature: 0 }),
    'chat_template.jinja': Buffer.from('{% for message in messages %}{{ message.content }}{% endfor %}'),
  };
  const whole = read(fixture, 'model.safetensors');
  if (shards === 1) return { ...files, 'model.safetensors': whole };
  const weights = opened(whole);
  const names = Object.keys(weights.header).filter((name) => name !== '__metadata__');
  const map = {};
  for (let i = 0; i < shards; i += 1) {
    const file = `model-0000${i + 1}-of-0000${shards}.safetensors`;
    // Neighbours go to different files, so that each shard alone is of no use.
    const own = names.filter((_, n) => n % shards === i);
    for (const name of own) map[name] = file;
    files[file] = part(weights, own);
  }
  return { ...files, 'model.safetensors.index.json': json({ metadata: { total_size: weights.data.length }, weight_map: map }) };
}
