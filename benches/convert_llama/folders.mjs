// Transformers folders to convert: the recorded ones, some of them changed where llama.cpp takes less than a family may have.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Tensors of a safetensors file of f32: name to sizes and numbers. */
export function readTensors(path) {
  const file = readFileSync(path);
  const length = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, 8 + length).toString());
  const tensors = new Map();
  delete header.__metadata__;
  for (const [name, { dtype, shape, data_offsets: [start, end] }] of Object.entries(header)) {
    const bytes = file.buffer.slice(file.byteOffset + 8 + length + start, file.byteOffset + 8 + length + end);
    if (dtype === 'F32') tensors.set(name, { shape, data: new Float32Array(bytes) });
    if (dtype === 'I64') tensors.set(name, { shape, data: Array.from(new BigInt64Array(bytes), Number) });
  }
  return tensors;
}

function writeTensors(path, tensors) {
  const header = {};
  let at = 0;
  for (const [name, { shape, data }] of tensors) {
    header[name] = { dtype: 'F32', shape, data_offsets: [at, at + data.byteLength] };
    at += data.byteLength;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const parts = [...tensors.values()].map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  writeFileSync(path, Buffer.concat([length, text, ...parts]));
}

/** A tensor in other sizes: its numbers from the start again where it is too short. */
function resized({ shape, data }, to) {
  const out = new Float32Array(to.reduce((n, size) => n * size, 1));
  for (let i = 0; i < out.length; i++) {
    let rest = i, from = 0, stride = 1;
    for (let axis = to.length - 1; axis >= 0; axis--) {
      from += (rest % to[axis]) % shape[axis] * stride;
      rest = Math.floor(rest / to[axis]);
      stride *= shape[axis];
    }
    out[i] = data[from];
  }
  return { shape: to, data: out };
}

/** Gives layer `to` every tensor of layer `from` whose part begins so. */
function copyLayer(tensors, from, to, part = '') {
  const prefix = `model.layers.${from}.`;
  const copies = [...tensors].filter(([name]) => name.startsWith(prefix + part));
  if (part) for (const name of [...tensors.keys()].filter((n) => n.startsWith(`model.layers.${to}.${part}`))) tensors.delete(name);
  for (const [name, tensor] of copies) tensors.set(`model.layers.${to}.${name.slice(prefix.length)}`, tensor);
}

/** Values of a linear attention are as wide as its keys: llama.cpp has one key for both. */
function equalWidths(config, tensors) {
  const { linear_num_key_heads: k, linear_num_value_heads: h, linear_key_head_dim: n } = config;
  config.linear_value_head_dim = n;
  const rows = { in_proj_qkv: 2 * k * n + h * n, in_proj_z: h * n, in_proj_qkvz: 2 * (k * n + h * n), norm: n, conv1d: 2 * k * n + h * n };
  for (const [name, tensor] of tensors) {
    const part = name.match(/linear_attn\.(\w+)\.weight$/)?.[1];
    if (part === 'out_proj') tensors.set(name, resized(tensor, [tensor.shape[0], h * n]));
    else if (part in rows) tensors.set(name, resized(tensor, [rows[part], ...tensor.shape.slice(1)]));
  }
}

/** What is changed of a recorded folder, and why. */
const CHANGES = {
  mistral: ['no window: llama.cpp has none in files of the architecture llama', (config) => { config.sliding_window = null; }],
  gemma2: ['scores by the width of a head: no key says another factor', (config) => { config.query_pre_attn_scalar = config.head_dim; }],
  gemma3: ['scores by the width of a head; a window in all layers but each sixth, as llama.cpp has it', (config) => {
    config.query_pre_attn_scalar = config.head_dim;
    config.layer_types = config.layer_types.map((_, i) => ((i + 1) % 6 ? 'sliding_attention' : 'full_attention'));
  }],
  gpt_oss: ['the bound of the published models, 7, and no YaRN: llama.cpp rounds the range of its frequencies', (config) => {
    config.swiglu_limit = 7;
    config.rope_parameters = { rope_theta: config.rope_parameters.rope_theta, rope_type: 'default' };
  }],
  minicpm3: ['the factors of the published model, which llama.cpp has in its code', (config) => {
    Object.assign(config, { scale_emb: 12, scale_depth: 1.4, dim_model_base: 256 });
  }],
  smollm3: ['each fourth layer without positions, as llama.cpp has it', (config) => {
    config.no_rope_layers = config.no_rope_layers.map((_, i) => ((i + 1) % 4 ? 1 : 0));
    config.no_rope_layer_interval = 4;
  }],
  phi3_longrope: ['an original context of 256: llama.cpp computes for no shorter one', (config) => {
    config.max_position_embeddings = 768;
    config.original_max_position_embeddings = config.rope_parameters.original_max_position_embeddings = 256;
  }],
  qwen3_moe: ['experts in every layer: llama.cpp has no others', (config, tensors) => {
    config.mlp_only_layers = [];
    copyLayer(tensors, 1, 0, 'mlp.');
  }],
  qwen3_next: ['experts in every layer, and values as wide as keys', (config, tensors) => {
    config.mlp_only_layers = [];
    copyLayer(tensors, 1, 0, 'mlp.');
    equalWidths(config, tensors);
  }],
  qwen35: ['values as wide as keys', equalWidths],
  deepseek_v2: ['27 layers: by their number llama.cpp knows that queries have no latent row', (config, tensors) => {
    const last = config.num_hidden_layers - 1;
    for (let i = config.num_hidden_layers; i < 27; i++) copyLayer(tensors, last, i);
    config.num_hidden_layers = 27;
  }],
};

/** GPT-2's alphabet: a character for each byte. */
function alphabet() {
  const own = [];
  for (let byte = 0; byte < 256; byte++) if ((byte > 32 && byte < 127) || (byte > 160 && byte !== 173)) own.push(byte);
  return [...own, ...Array.from({ length: 68 }, (_, i) => 256 + i)].map((code) => String.fromCodePoint(code));
}

/** A tokenizer of so many tokens, for folders that have none: each byte a token. */
function plainTokenizer(tokens) {
  const letters = alphabet();
  const vocab = Object.fromEntries(Array.from({ length: tokens }, (_, i) => [letters[i] ?? `t${i}`, i]));
  return JSON.stringify({
    model: { type: 'BPE', vocab, merges: [], ignore_merges: false },
    added_tokens: [],
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
  });
}

/** Writes the folder of a family into `scratch`; returns its path, what was changed, and the record. */
export function familyFolder(reference, name, scratch) {
  const from = join(reference, name);
  const config = JSON.parse(readFileSync(join(from, 'config.json'), 'utf8'));
  const tensors = readTensors(join(from, 'model.safetensors'));
  const [changed, change] = CHANGES[name] ?? [null, () => {}];
  change(config, tensors);
  // llama.cpp looks for tokens of Phi 3 where a name has that in it.
  const folder = join(scratch, name.replace('phi3', 'phi_3'));
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  writeTensors(join(folder, 'model.safetensors'), tensors);
  writeFileSync(join(folder, 'tokenizer.json'), plainTokenizer(config.vocab_size));
  const record = readTensors(join(from, 'io.safetensors'));
  return { folder, changed, prompt: record.get('in.prompt_ids').data, greedy: record.get('out.greedy').data };
}

/** The folder of LLaMA with a recorded tokenizer, and a table of embeddings of its size. */
export function tokenizerFolder(reference, name, scratch) {
  const from = join(reference, 'llama32');
  const config = JSON.parse(readFileSync(join(from, 'config.json'), 'utf8'));
  const tensors = readTensors(join(from, 'model.safetensors'));
  const read = (file) => readFileSync(join(reference, 'tokenizers', `${name}.${file}`), 'utf8');
  const recorded = JSON.parse(read('json'));
  const tokenizer = read('tokenizer.json');
  const { model, added_tokens: added } = JSON.parse(tokenizer);
  config.vocab_size = Math.max(...Object.values(model.vocab), ...added.map((token) => token.id)) + 1;
  for (const [part, tensor] of tensors) {
    if (part.includes('embed_tokens') || part.includes('lm_head')) tensors.set(part, resized(tensor, [config.vocab_size, tensor.shape[1]]));
  }
  const folder = join(scratch, `tokenizer-${name}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  writeTensors(join(folder, 'model.safetensors'), tensors);
  writeFileSync(join(folder, 'tokenizer.json'), tokenizer);
  writeFileSync(join(folder, 'tokenizer_config.json'), read('tokenizer_config.json'));
  const { strings } = JSON.parse(readFileSync(join(reference, 'tokenizers', 'strings.json'), 'utf8'));
  return { folder, strings, recorded: recorded.strings };
}
