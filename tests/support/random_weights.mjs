// Weights for a graph's text, the same from the same seed, as the bytes of a safetensors file.

/** Numbers from -1 to 1. */
export function randomNumbers(seed) {
  let x = seed | 1;
  return () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return ((x >>> 0) % 2001) / 1000 - 1;
  };
}

/** The weights that a graph's text names, f32: name to sizes. */
export function weightsOf(graph) {
  const lines = graph.matchAll(/^\s*weight %(\S+) : tensor<((?:\d+x)+)f32>$/gm);
  return [...lines].map(([, name, dims]) => ({ name, dims: dims.slice(0, -1).split('x').map(Number) }));
}

/** A safetensors file of tensors `{ name, dims, data }` of f32. */
export function safetensors(tensors) {
  const header = {};
  let at = 0;
  for (const { name, dims, data } of tensors) {
    header[name] = { dtype: 'F32', shape: dims, data_offsets: [at, at += data.byteLength] };
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setUint32(0, json.byteLength, true);
  return new Blob([length, json, ...tensors.map(({ data }) => data)]);
}

/** A file of weights `{ name, dims }`: small numbers; of norms' factors around one. */
function random(weights, seed) {
  const next = randomNumbers(seed);
  return safetensors(weights.map(({ name, dims }) => {
    const middle = /norm.*weight$/i.test(name) ? 1 : 0;
    const data = Float32Array.from({ length: dims.reduce((n, d) => n * d, 1) }, () => middle + next() / 4);
    return { name, dims, data };
  }));
}

/** A file with every weight of a graph's text. */
export const randomWeights = (graph, seed) => random(weightsOf(graph), seed);

/** The files of a small BERT's folder, as sentence-transformers has them; texts by name, and the weights as a Blob. */
export function bertFolder(seed) {
  const [dim, ffn, positions] = [16, 24, 32];
  const words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'the', 'borrow', 'check', '##er', 'is', 'happy', '.'];
  const linear = (name, out, width) => [{ name: `${name}.weight`, dims: [out, width] }, { name: `${name}.bias`, dims: [out] }];
  const norm = (name) => ['weight', 'bias'].map((part) => ({ name: `${name}.LayerNorm.${part}`, dims: [dim] }));
  const layer = 'encoder.layer.0';
  const weights = [
    { name: 'embeddings.word_embeddings.weight', dims: [words.length, dim] },
    { name: 'embeddings.position_embeddings.weight', dims: [positions, dim] },
    { name: 'embeddings.token_type_embeddings.weight', dims: [2, dim] },
    ...norm('embeddings'),
    ...['query', 'key', 'value'].flatMap((part) => linear(`${layer}.attention.self.${part}`, dim, dim)),
    ...linear(`${layer}.attention.output.dense`, dim, dim), ...norm(`${layer}.attention.output`),
    ...linear(`${layer}.intermediate.dense`, ffn, dim),
    ...linear(`${layer}.output.dense`, dim, ffn), ...norm(`${layer}.output`),
  ];
  const config = {
    model_type: 'bert', hidden_size: dim, num_attention_heads: 2, num_hidden_layers: 1, intermediate_size: ffn,
    vocab_size: words.length, max_position_embeddings: positions, type_vocab_size: 2, layer_norm_eps: 1e-12, hidden_act: 'gelu',
  };
  const module = (kind) => ({ type: `sentence_transformers.models.${kind}` });
  return {
    words,
    texts: {
      'config.json': JSON.stringify(config),
      'vocab.txt': words.join('\n'),
      'modules.json': JSON.stringify(['Transformer', 'Pooling', 'Normalize'].map(module)),
      '1_Pooling/config.json': JSON.stringify({ word_embedding_dimension: dim, pooling_mode_cls_token: true, pooling_mode_mean_tokens: false }),
      'sentence_bert_config.json': JSON.stringify({ max_seq_length: 8, do_lower_case: false }),
    },
    weights: random(weights, seed),
  };
}
