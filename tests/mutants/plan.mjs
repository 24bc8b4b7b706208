// Small defects in the planner, and in the check of its plans.

const at = (path) => `crates/rlx-core/src/plan/${path}`;

export default [
  {
    name: 'liveness-a-step-early', is: 'review', kind: 'bound', file: at('liveness.rs'),
    from: 'last_read[at(v)].max(i).min(g.nodes.len())', to: 'last_read[at(v)].min(g.nodes.len()).saturating_sub(1).max(i)',
    stands: 'A value\'s memory is free one step before it is read for the last time.',
    tests: ['core:all noticed::', 'core:all plan::'],
  },
  {
    name: 'liveness-in-place-read-later', is: 'new', kind: 'condition', file: at('liveness.rs'),
    from: 'last_read[at(x)] == i', to: 'last_read[at(x)] >= i',
    stands: 'A result takes the place of an operand that a later step reads.',
    tests: ['core:all noticed::', 'core:all plan::'],
  },
  {
    name: 'liveness-in-place-read-twice', is: 'new', kind: 'condition', file: at('liveness.rs'),
    within: 'last_read[at(x)] == i && whole && readers == 1', from: 'readers == 1', to: 'true',
    stands: 'A result takes the place of an operand that the step reads by another operand too.',
    tests: ['core:all noticed::', 'core:all plan::'],
  },
  {
    name: 'largest-live-ends-early', is: 'new', kind: 'bound', file: at('liveness.rs'),
    within: 'ends[s.to + 1] += s.bytes', from: 's.to + 1', to: 's.to',
    stands: 'The least memory that a program needs is reported a step short.',
    tests: ['core:all noticed::', 'core:all plan::'],
  },
  {
    name: 'gap-too-small', is: 'new', kind: 'bound', file: at('arena.rs'),
    from: 'at + size <= from', to: 'at + size <= from + self.alignment',
    stands: 'A value is put into a gap that is one slot too short.',
    tests: ['core:all noticed::', 'core:lib plan::arena', 'core:all plan::'],
  },
  {
    name: 'gap-after-a-long-one', is: 'new', kind: 'bound', file: at('arena.rs'),
    from: 'end.max(to)', to: 'to',
    stands: 'A gap is found inside a value that began earlier and ends later.',
    tests: ['core:all noticed::', 'core:lib plan::arena', 'core:all plan::'],
  },
  {
    name: 'parts-off-the-tile', is: 'new', kind: 'rounding', file: at('parts.rs'),
    from: 'most.checked_div(row).unwrap_or(0) / tile * tile', to: 'most.checked_div(row).unwrap_or(0)',
    stands: 'A part of a large weight ends inside a tile of rows.',
    tests: ['core:all noticed::', 'core:all plan::memory'],
  },
  {
    name: 'parts-of-a-bias', is: 'new', kind: 'arithmetic', file: at('parts.rs'),
    from: 'whole.offset + first * row', to: 'whole.offset',
    stands: 'Every part of a large weight gets the first rows of the bias.',
    tests: ['core:all noticed::', 'core:all plan::memory', 'webgpu:all parts::'],
  },
  {
    name: 'weight-within-off-a-word', is: 'new', kind: 'guard', file: at('weights.rs'),
    from: '(before + at).is_multiple_of(8)', to: 'true',
    stands: 'A tensor inside another one is used where it lies, though that is no place for a view.',
    tests: ['core:all noticed::', 'core:all plan::', 'core:all reference::plan'],
  },
  {
    name: 'weight-within-the-first-piece', is: 'new', kind: 'state', file: at('weights.rs'),
    from: 'before += piece.bytes;', to: '', form: 'statement',
    stands: 'A tensor in the second piece of another one is looked for in the first.',
    tests: ['core:all noticed::', 'core:all plan::', 'core:all reference::plan'],
  },
  {
    name: 'weight-within-at-the-start', is: 'new', kind: 'state', file: at('weights.rs'),
    from: 'slice.offset += offset;', to: '', form: 'statement',
    stands: 'A tensor inside another one is read from the other one\'s first byte.',
    tests: ['core:all noticed::', 'core:all plan::', 'core:all reference::plan'],
  },
  {
    name: 'weight-buffer-overfull', is: 'new', kind: 'bound', file: at('weights.rs'),
    from: 'aligned(b.bytes) + rounded <= most.min(FULL_BUFFER)', to: 'aligned(b.bytes) <= most.min(FULL_BUFFER)',
    stands: 'The last weight of a buffer makes it larger than the device binds.',
    tests: ['core:all noticed::', 'core:all plan::', 'core:all reference::plan'],
  },
  {
    name: 'weight-not-rounded', is: 'new', kind: 'rounding', file: at('weights.rs'),
    from: 'bytes.div_ceil(4) * 4', to: 'bytes',
    stands: 'A buffer ends at the last byte of its last weight, inside a word.',
    tests: ['core:all noticed::', 'core:all plan::', 'core:all reference::plan'],
  },
  {
    name: 'runtime-size-above-its-bound', is: 'new', kind: 'bound', file: at('at_run.rs'),
    within: 'Some(&n) if n <= bound', from: 'n <= bound', to: 'n <= bound + 1',
    stands: 'A run may have one row more than its program was planned for.',
    tests: ['core:all noticed::', 'core:all plan::memory'],
  },
  {
    name: 'runtime-view-stays', is: 'new', kind: 'arithmetic', file: at('at_run.rs'),
    from: 'slice.offset - old[v.0 as usize] + new[v.0 as usize]', to: 'slice.offset',
    stands: 'A view of a smaller run begins where it begins in the largest.',
    tests: ['core:all noticed::', 'core:all plan::', 'core:all graphs::', 'core:all fuzz::'],
  },
  {
    name: 'bounded-slot-too-small', is: 'new', kind: 'bound', file: at('schedule.rs'),
    from: 'span.bytes.max(upper_bytes(template.graph.ty(*root), &template.bounds)?)', to: 'span.bytes',
    stands: 'A value that is largest below the bound gets the memory it has at the bound.',
    tests: ['core:all noticed::', 'core:all plan::', 'core:all graphs::', 'core:all fuzz::'],
  },
  {
    name: 'check-last-step', is: 'new', kind: 'bound', file: at('check.rs'),
    from: 'b.from <= a.to', to: 'b.from < a.to',
    stands: 'The check of a plan allows a result on top of an operand of the same step.',
    tests: ['core:all noticed::', 'core:all plan::', 'core:all reference::plan'],
  },
  {
    name: 'check-in-place-too-early', is: 'new', kind: 'condition', file: at('check.rs'),
    from: 'a.to == b.from', to: 'true',
    stands: 'The check of a plan allows a result in the place of an operand that is read later.',
    tests: ['core:all noticed::', 'core:all plan::', 'core:all reference::plan'],
  },
  {
    name: 'check-one-binding-more', is: 'new', kind: 'bound', file: at('check.rs'),
    from: 'bound.len() > limits.storage_buffers as usize', to: 'bound.len() > limits.storage_buffers as usize + 1',
    stands: 'The check of a plan allows one memory more than the device binds.',
    tests: ['core:all noticed::', 'core:all plan::', 'core:all reference::plan'],
  },
];
