// Small defects in the CPU's kernels.

const at = (path) => `crates/rlx-cpu/src/${path}`;

export default [
  {
    name: 'cpu-kv-write-when-done', is: 'review', kind: 'guard', file: at('kernels/kv_write.rs'),
    from: 'ctl.done', to: 'false',
    stands: 'A cache is written after the end of the answer.',
    tests: ['cpu:all noticed::', 'cpu:all caches::', 'cpu:all loops::'],
  },
  {
    name: 'cpu-q4-k-minima', is: 'review', kind: 'operand', file: at('formats/k.rs'),
    from: 's.or(high(s, z), top(y))', to: 's.or(low(s, z), top(y))',
    stands: 'The minima of the last four runs of q4_k are the scales\' low bits.',
    tests: ['cpu:all noticed::', 'cpu:all operators::'],
  },
  {
    name: 'cpu-q6-k-scale-word', is: 'review', kind: 'operand', file: at('formats/k.rs'),
    from: 'word(s, b, h, 26 * half + i)', to: '{ let _ = i; word(s, b, h, 26 * half) }',
    stands: 'Half of the scales of q6_k are those of the other half.',
    tests: ['cpu:all noticed::', 'cpu:all operators::'],
  },
  {
    name: 'cpu-attention-sees-the-next', is: 'review', kind: 'bound', file: at('kernels/attention.rs'),
    from: '(position / self.block + 1).saturating_mul(self.block)', to: '(position / self.block + 2).saturating_mul(self.block)',
    stands: 'A row sees the position behind its own.',
    tests: ['cpu:all noticed::', 'cpu:all caches::'],
  },
  {
    name: 'cpu-attention-block-of-all-rows', is: 'new', kind: 'bound', file: at('kernels/attention.rs'),
    from: 'end.min(held)', to: 'end',
    stands: 'The last row of a block that is not whole sees rows that were never written.',
    tests: ['cpu:all noticed::', 'cpu:all functions::'],
  },
  {
    name: 'cpu-attention-window-short', is: 'review', kind: 'bound', file: at('kernels/attention.rs'),
    from: 'position.saturating_sub(self.window)', to: 'position.saturating_sub(self.window.saturating_sub(1))',
    stands: 'A window is one position short.',
    tests: ['cpu:all noticed::', 'cpu:all caches::'],
  },
  {
    name: 'cpu-kv-write-past-len', is: 'review', kind: 'bound', file: at('kernels/kv_write.rs'),
    from: 'ctl.len.min(self.seq)', to: 'self.seq',
    stands: 'Rows that a part full chunk does not have are written into the cache.',
    tests: ['cpu:all noticed::', 'cpu:all caches::'],
  },
  {
    name: 'cpu-kv-write-a-position-on', is: 'review', kind: 'bound', file: at('kernels/kv_write.rs'),
    from: 'ctl.past + i', to: 'ctl.past + i + 1',
    stands: 'Rows are written one position too far.',
    tests: ['cpu:all noticed::', 'cpu:all caches::'],
  },
  {
    name: 'cpu-rope-kv-write-when-done', is: 'new', kind: 'guard', file: at('kernels/rope.rs'),
    from: 'ctl.done', to: 'false',
    stands: 'The fused step writes its cache after the end of the answer.',
    tests: ['cpu:all noticed::', 'cpu:all caches::', 'cpu:all loops::', 'cpu:all operators::'],
  },
  {
    name: 'cpu-rope-half-of-the-head', is: 'new', kind: 'operand', file: at('kernels/rope.rs'),
    from: 'head.split_at_mut(self.half)', to: 'head.split_at_mut(self.head_dim / 2)',
    stands: 'A head of which only some dimensions turn is cut in its middle.',
    tests: ['cpu:all noticed::', 'cpu:all caches::', 'cpu:all operators::'],
  },
  {
    name: 'cpu-attention-before-the-window', is: 'new', kind: 'guard', file: at('kernels/attention.rs'),
    from: 'p[r][..own.start].fill(f32::NEG_INFINITY);', to: '', form: 'statement',
    stands: 'Rows that are computed together see what the first one\'s window sees.',
    tests: ['cpu:all noticed::', 'cpu:all caches::', 'cpu:all functions::'],
  },
  {
    name: 'cpu-attention-sum-does-not-fade', is: 'new', kind: 'arithmetic', file: at('kernels/attention.rs'),
    from: 'sum[r] * keep[0] + s.sum(total)', to: 'sum[r] + s.sum(total)',
    stands: 'The sum of weights keeps the scale of an older maximum.',
    tests: ['cpu:all noticed::', 'cpu:all caches::'],
  },
  {
    name: 'cpu-split-without-rows', is: 'new', kind: 'guard', file: at('kernels/attention_split.rs'),
    from: 'ctl.len == 0', to: 'false',
    stands: 'A submission without rows computes splits of what it does not have.',
    tests: ['cpu:all noticed::', 'cpu:all splits::'],
  },
  {
    name: 'cpu-q8-0-halves-down', is: 'new', kind: 'rounding', file: at('kernels/quantize_rows.rs'),
    from: '(v - whole).abs() >= 0.5', to: '(v - whole).abs() > 0.5',
    stands: 'Halves are rounded towards zero.',
    tests: ['cpu:all noticed::', 'cpu:all operators::quantized', 'cpu:all hostile::'],
  },
  {
    name: 'cpu-q8-k-last-of-the-largest', is: 'new', kind: 'order', file: at('kernels/quantize_rows.rs'),
    from: 'x.iter().find(|v| v.abs() == most)', to: 'x.iter().rev().find(|v| v.abs() == most)',
    stands: 'Of two largest magnitudes of different signs the last one decides the scale\'s sign.',
    tests: ['cpu:all noticed::', 'cpu:all operators::quantized', 'cpu:all hostile::'],
  },
  {
    name: 'cpu-norm-without-the-rest', is: 'new', kind: 'bound', file: at('kernels/rms_norm.rs'),
    from: 'rest.iter().map(|x| x * x).sum::<f32>()', to: '{ let _ = rest; 0.0 }',
    stands: 'A row that is no whole number of vectors is normed without its last elements.',
    tests: ['cpu:all noticed::', 'cpu:all operators::norms'],
  },
  {
    name: 'cpu-last-rows-of-a-full-chunk', is: 'new', kind: 'bound', file: at('kernels/take_rows.rs'),
    from: 'control(cx.slice(1)).len.min(self.seq)', to: 'self.seq',
    stands: 'The last rows of a part full chunk are those behind its last real one.',
    tests: ['cpu:all noticed::', 'cpu:all operators::last_rows'],
  },
  {
    name: 'cpu-kv-write-at-the-capacity', is: 'new', kind: 'bound', file: at('kernels/kv_write.rs'),
    from: 'at >= self.capacity', to: 'at > self.capacity',
    stands: 'A row just past the last position is written.',
    tests: ['cpu:all noticed::', 'cpu:all caches::'],
  },
  {
    name: 'cpu-ring-read-in-order', is: 'new', kind: 'operand', file: at('kernels/attention.rs'),
    from: '(next, cache.row(next))', to: '(next, next.min(cache.capacity - 1))',
    stands: 'A ring of keys is read as if it had the first positions.',
    tests: ['cpu:all functions::attention', 'cpu:all splits::'],
  },
  {
    name: 'cpu-gelu-of-infinity', is: 'new', kind: 'guard', file: at('kernels/math.rs'),
    from: 's.min(s.splat(20.0), s.max(s.sub(s.splat(0.0), x), x))', to: 's.max(s.sub(s.splat(0.0), x), x)',
    stands: 'gelu of an infinity is no number.',
    tests: ['cpu:all noticed::', 'cpu:all functions::'],
  },
  {
    name: 'cpu-idle-without-heed', is: 'new', kind: 'condition', file: at('program.rs'),
    within: 'built.control.is_some() && in_states && heed', from: 'heed', to: 'true',
    stands: 'A program whose steps do not look at the end is skipped once there is one.',
    tests: ['cpu:all noticed::', 'cpu:all caches::', 'cpu:all loops::'],
  },
  {
    name: 'cpu-gather-past-the-last', is: 'new', kind: 'bound', file: at('kernels/gather.rs'),
    from: '(ids[i] as usize).min(self.rows - 1)', to: '(ids[i] as usize) % self.rows',
    stands: 'An id past the table reads another row than the last.',
    tests: ['cpu:all noticed::', 'cpu:all operators::gather'],
  },
  {
    name: 'cpu-even-signs', is: 'new', kind: 'arithmetic', file: at('formats/codebook.rs'),
    from: 's.xor(p, s.right(p, 2))', to: 'p',
    stands: 'The eighth sign of iq2 and iq3 leaves out two of the seven.',
    tests: ['cpu:all noticed::', 'cpu:all operators::'],
  },
  {
    name: 'cpu-iq3-s-ninth-bit', is: 'new', kind: 'operand', file: at('formats/codebook.rs'),
    from: 's.bits(ninth, 1, 0)', to: 's.bits(ninth, 0, 0)',
    stands: 'The ninth bits of the second four indices of iq3_s are those of the first.',
    tests: ['cpu:all noticed::', 'cpu:all operators::'],
  },
  {
    name: 'cpu-experts-bias-of-the-first', is: 'new', kind: 'operand', file: at('kernels/grouped_matmul.rs'),
    from: '[expert * bank.n..][n]', to: '[{ let _ = expert; 0 }..][n]',
    stands: 'Every expert has the first one\'s biases.',
    tests: ['cpu:all experts::'],
  },
  {
    name: 'cpu-experts-rows-past-len', is: 'new', kind: 'bound', file: at('kernels/grouped_matmul.rs'),
    from: 'cx.real(ids.len() / self.top_k * per_row) / per_row', to: 'ids.len() / self.top_k',
    stands: 'Rows that a part full chunk does not have go to experts.',
    tests: ['cpu:all experts::'],
  },
  {
    name: 'cpu-bank-panels-across-experts', is: 'new', kind: 'guard', file: at('kernels/grouped_matmul.rs'),
    from: 'in_panels &= n.is_multiple_of(ROWS)', to: 'in_panels &= n > 0',
    stands: 'A bank whose matrices are no whole panels is read in panels.',
    tests: ['cpu:all experts::'],
  },
  {
    name: 'cpu-route-bias-on-logits', is: 'new', kind: 'operand', file: at('kernels/route.rs'),
    from: 'if op.chooses_by_score() { scores } else { logits }', to: 'logits',
    stands: 'The bias of a choice is added to logits instead of scores.',
    tests: ['cpu:all experts::'],
  },
];
