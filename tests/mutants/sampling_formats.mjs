// Small defects in sampling and in packed formats.

const sample = (path) => `crates/rlx-core/src/sample/${path}`;
const formats = (path) => `crates/rlx-core/src/formats/${path}`;

export default [
  {
    name: 'top-p-one-more', is: 'review', kind: 'arithmetic', file: sample('mod.rs'),
    from: 'need(total).max(1)', to: 'need(total) + 1',
    stands: 'Top-p must be exceeded where it must be reached.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'presence-adds', is: 'review', kind: 'arithmetic', file: sample('mod.rs'),
    from: 'frequency * n_generated as f32 + presence', to: 'frequency * n_generated as f32 - presence',
    stands: 'A presence penalty favours what is there already.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'probability-cut', is: 'new', kind: 'rounding', file: sample('params.rs'),
    from: '(f64::from(p) * f64::from(TOP_P_OFF) + 0.5)', to: '(f64::from(p) * f64::from(TOP_P_OFF))',
    stands: 'top_p and min_p are cut to 31 bits and not rounded.',
    tests: ['core:all noticed::', 'core:all sample::', 'core:lib sample::'],
  },
  {
    name: 'distance-from-infinity', is: 'new', kind: 'guard', file: sample('mod.rs'),
    from: 'max.clamp(-LARGEST, LARGEST)', to: 'max',
    stands: 'The distance from a logit of infinity is no number.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'top-k-one-more', is: 'new', kind: 'bound', file: sample('mod.rs'),
    from: 'u64::from(top_k)', to: 'u64::from(top_k) + 1',
    stands: 'Top-k keeps one token more.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'draw-reaches', is: 'new', kind: 'bound', file: sample('mod.rs'),
    within: 'reach(sums.into_iter(), target + 1)?', from: 'target + 1', to: 'target',
    stands: 'The draw takes the token that reaches the random share, not the one that exceeds it.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'min-p-exceeds', is: 'new', kind: 'bound', file: sample('mod.rs'),
    from: 'weight >= params[params::MIN_P]', to: 'weight > params[params::MIN_P]',
    stands: 'A token of exactly the least probability is left out.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'prompt-counts-as-generated', is: 'new', kind: 'operand', file: sample('mod.rs'),
    within: 'let n_generated = word & GENERATED', from: 'word & GENERATED', to: 'word & (GENERATED | IN_PROMPT)',
    stands: 'Frequency and presence penalties count the prompt.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'bias-as-an-occurrence', is: 'new', kind: 'operand', file: sample('mod.rs'),
    from: 'word & (IN_PROMPT | GENERATED) != 0', to: 'word != 0',
    stands: 'The repetition penalty takes a token with a bias for one of the text.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'full-count-goes-on', is: 'new', kind: 'bound', file: sample('mod.rs'),
    from: 'u32::from(*word & GENERATED != GENERATED)', to: '1',
    stands: 'A count past its most turns into the mark of the prompt.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'likeliest-the-later-of-equals', is: 'new', kind: 'bound', file: sample('likely.rs'),
    from: 'other.0 >= logit', to: 'other.0 > logit',
    stands: 'Of tokens that are as likely the later one is told first.',
    tests: ['core:all noticed::', 'core:lib likely'],
  },
  {
    name: 'likely-without-the-best', is: 'new', kind: 'operand', file: sample('likely.rs'),
    from: 'expf(number(logit) - max)', to: 'expf(number(logit))',
    stands: 'Probabilities overflow where logits are large.',
    tests: ['core:all noticed::', 'core:lib likely'],
  },
  {
    name: 'best-of-a-later-chunk', is: 'new', kind: 'bound', file: sample('mod.rs'),
    from: 'chunk_max > max', to: 'chunk_max >= max',
    stands: 'Of equal largest logits, 1,024 ids apart, the later one is taken.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'stop-word-past-the-last', is: 'new', kind: 'bound', file: sample('mod.rs'),
    within: '.take(n_stop)', from: 'n_stop', to: 'n_stop + 1',
    stands: 'One word behind the stop tokens, which is 0, counts as one of them.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'cut-keeps-its-own-id', is: 'new', kind: 'bound', file: sample('mod.rs'),
    from: '(id as u32) < self.id', to: '(id as u32) <= self.id',
    stands: 'Of a tie that is split one token more is kept.',
    tests: ['core:all noticed::', 'core:all sample::'],
  },
  {
    name: 'limit-passed', is: 'new', kind: 'bound', file: sample('control.rs'),
    from: 'self.step >= self.limit', to: 'self.step > self.limit',
    stands: 'A generation ends one token after its limit.',
    tests: ['core:all noticed::', 'core:all sample::', 'core:lib sample::'],
  },
  {
    name: 'capacity-passed', is: 'new', kind: 'bound', file: sample('control.rs'),
    from: 'self.past >= self.capacity', to: 'self.past > self.capacity',
    stands: 'A generation ends one position after its context is full.',
    tests: ['core:all noticed::', 'core:all sample::', 'core:lib sample::'],
  },
  {
    name: 'mxfp4-second-denormal', is: 'new', kind: 'bound', file: formats('floats.rs'),
    from: 'e < 2', to: 'e < 1',
    stands: 'mxfp4\'s second smallest scale is 0 instead of a denormal.',
    tests: ['core:all noticed::', 'core:all readers::dequantize'],
  },
  {
    name: 'nvfp4-not-a-number', is: 'new', kind: 'guard', file: formats('floats.rs'),
    from: 'e == 0x7f', to: 'false',
    stands: 'nvfp4\'s scale 0x7f is 480 instead of 0.',
    tests: ['core:all noticed::', 'core:all readers::dequantize'],
  },
  {
    name: 'nvfp4-denormal-scale', is: 'new', kind: 'constant', file: formats('floats.rs'),
    from: '1.0 / 1024.0', to: '1.0 / 512.0',
    stands: 'nvfp4\'s smallest scales are twice as large.',
    tests: ['core:all noticed::', 'core:all readers::dequantize'],
  },
  {
    name: 'iq1-delta', is: 'new', kind: 'constant', file: formats('codebooks.rs'),
    from: 'if down { -0.125 } else { 0.125 }', to: 'if down { 0.125 } else { -0.125 }',
    stands: 'iq1\'s values are moved the other way.',
    tests: ['core:all noticed::', 'core:all readers::dequantize'],
  },
  {
    name: 'q8-k-last-of-the-largest', is: 'new', kind: 'order', file: formats('activations.rs'),
    within: 'the first of the largest magnitude, with its sign\n        for &v in x {\n            if v.abs() > largest.abs()', from: 'v.abs() > largest.abs()', to: 'v.abs() >= largest.abs()',
    stands: 'Of two largest magnitudes of different signs the last one decides the scale\'s sign.',
    tests: ['core:all noticed::', 'core:lib formats::activations', 'cpu:all operators::quantized', 'cpu:all hostile::'],
  },
  {
    name: 'q8-k-beyond-the-last-level', is: 'new', kind: 'guard', file: formats('activations.rs'),
    from: 'round_even(inverse * v).min(127.0)', to: 'round_even(inverse * v)',
    stands: 'What is no number in a block of tiny values becomes 0 and not the last level.',
    tests: ['core:all noticed::', 'core:lib formats::activations', 'cpu:all operators::quantized', 'cpu:all hostile::'],
  },
  {
    name: 'q8-0-cut', is: 'new', kind: 'rounding', file: formats('activations.rs'),
    from: 'round(f64::from(v * inverse))', to: 'f64::from(v * inverse)',
    stands: 'int8 activations are cut to integers and not rounded.',
    tests: ['core:all noticed::', 'core:lib formats::activations'],
  },
  {
    name: 'large-from-three', is: 'new', kind: 'constant', file: formats('activations.rs'),
    from: 'const LARGE: f64 = 2.25', to: 'const LARGE: f64 = 3.0',
    stands: 'Prompts lose low parts that weigh.',
    tests: ['core:all noticed::', 'core:lib formats::activations'],
  },
  {
    name: 'fit-not-repeated', is: 'new', kind: 'constant', file: formats('encode/fit.rs'),
    within: 'for _ in 0..4 {\n        let Some(better)', from: '0..4', to: '0..0',
    stands: 'An encoder takes the best of its first scales and does not fit it any further.',
    tests: ['core:all noticed::', 'core:all readers::encode'],
    survives: 'The promise holds without it: no row of ggml\'s recorded matrix loses more than with ggml\'s own encoders.',
  },
  {
    name: 'fit-without-neighbours', is: 'new', kind: 'constant', file: formats('encode/super_blocks.rs'),
    from: 'middle.abs() < 24', to: 'middle.abs() < 0',
    stands: 'An encoder of super-blocks tries the nearest scale of a run and not its neighbours.',
    tests: ['core:all noticed::', 'core:all readers::encode'],
    survives: 'The promise holds without it: no row of ggml\'s recorded matrix loses more than with ggml\'s own encoders.',
  },
  {
    name: 'f16-rounds-twice', is: 'new', kind: 'rounding', file: 'crates/rlx-core/src/math.rs',
    from: 'f32::from_bits(cut | 1)', to: 'near',
    stands: 'Results in f16 and bf16 are rounded twice.',
    tests: ['core:all noticed::', 'core:lib math::', 'core:all precision::', 'core:all operators::'],
  },
];
