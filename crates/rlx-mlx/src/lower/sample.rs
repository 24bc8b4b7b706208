//! Logits to a token, in integers: `rlx_core::sample` step by step.
//!
//! The reference finds the cuts of top-k and top-p by bins; here all distances are sorted with their ids, which is the
//! same order. A graph computes all that it has, so that a step that takes the best token has a tape without the draw.

use super::control::Control;
use super::takes::{Taken, is_float, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::sample::{GENERATED, IN_PROMPT, control, params, weight::FAR};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &[])?;
    let vocab = operands.first().and_then(|ty| ty.shape.last().as_static());
    // Ids are numbers of 31 bits.
    if !vocab.is_some_and(|n| n > 0 && n < 1 << 31) {
        return Err("it has no tokens".into());
    }
    operands.first().map_or_else(|| Err("it has no logits".into()), |ty| is_float(0, ty))
}

/// By the parameters.
pub(super) fn sample(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    write(c, false)
}

/// Where the parameters say that the best token is taken.
pub(super) fn greedy(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    write(c, true)
}

/// What the sampler reads.
struct Step {
    params: Reg,
    words: i64,
    counts: Reg,
    ctl: Control,
    vocab: i64,
}

impl Step {
    /// A word of the parameters.
    fn word(&self, t: &mut Tape, i: usize) -> Reg {
        t.element(self.params, self.words, i as i64)
    }

    /// A word of the parameters that is the bits of an f32.
    fn float(&self, t: &mut Tape, i: usize) -> Reg {
        let word = self.word(t, i);
        t.bits(word, Kind::F32)
    }

    /// Whether a word of the parameters is not 0.
    fn is_on(&self, t: &mut Tape, i: usize) -> Reg {
        let (word, zero) = (self.word(t, i), t.integer(Kind::U32, 0));
        t.ne(word, zero)
    }
}

fn write(c: &mut Call<'_>, greedy: bool) -> Result<Vec<Reg>> {
    let Op::Sample(_) = c.op else { return Err(refused("no sample".into())) };
    let vocab = *c.dims(0)?.last().ok_or_else(|| refused("no logits".into()))?;
    let step = Step {
        params: c.x(1)?,
        words: c.dims(1)?[0],
        counts: c.x(2)?,
        ctl: Control(c.x(3)?),
        vocab,
    };
    let logits = c.cast(0, Kind::F32)?;
    let t = &mut *c.t;
    let logits = t.reshape(logits, &[vocab]);
    let logits = masked(t, &step, logits);
    let (best, max) = best(t, logits);
    let id = if greedy {
        best
    } else {
        let drawn = draw(t, &step, logits, [best, max]);
        let (takes_best, least) = (step.is_on(t, params::GREEDY), t.float(f32::NEG_INFINITY));
        let nothing = t.eq(max, least);
        let takes_best = t.or(takes_best, nothing);
        t.select(takes_best, best, drawn)
    };
    let counts = counted(t, &step, id);
    Ok(vec![counts, advanced(t, &step, id)])
}

/// Logits after penalties, biases and the mask; NaN counts as `-inf`.
fn masked(t: &mut Tape, step: &Step, logits: Reg) -> Reg {
    let least = t.float(f32::NEG_INFINITY);
    let zero = t.integer(Kind::U32, 0);
    let word = step.counts;
    let bits = |t: &mut Tape, n: u32| {
        let mask = t.integer(Kind::U32, n.into());
        t.bit_and(word, mask)
    };
    let (seen, generated) = (bits(t, IN_PROMPT | GENERATED), bits(t, GENERATED));
    let (is_seen, is_generated) = (t.ne(seen, zero), t.gt(generated, zero));
    let [repetition, reciprocal, frequency, presence] =
        [params::REPETITION, params::REPETITION_RECIPROCAL, params::FREQUENCY, params::PRESENCE]
            .map(|i| step.float(t, i));
    let nought = t.float(0.0);
    let above = t.gt(logits, nought);
    let by = t.select(above, reciprocal, repetition);
    let scaled = t.mul(logits, by);
    let y = t.select(is_seen, scaled, logits);
    let n = t.cast(generated, Kind::F32);
    let less = t.mul(frequency, n);
    let less = t.add(less, presence);
    let lowered = t.sub(y, less);
    let y = t.select(is_generated, lowered, y);
    let bias = t.bits(word, Kind::I32);
    let sixteen = t.integer(Kind::I32, 16);
    let bias = t.shr(bias, sixteen);
    let (bias, unit) = (t.cast(bias, Kind::F32), t.float(1.0 / 256.0));
    let bias = t.mul(bias, unit);
    let y = t.add(y, bias);
    let penalised = step.is_on(t, params::PENALTIES);
    let y = t.select(penalised, y, logits);
    // A bit for each token behind the parameters.
    let ids = t.arange(Kind::U32, step.vocab);
    let [five, low, one] = [5, 31, 1].map(|n| t.integer(Kind::U32, n));
    let at = t.shr(ids, five);
    let bit = t.bit_and(ids, low);
    let mask = t.slice(step.params, &[step.words], 0, params::WORDS as i64, step.words);
    let at = t.cast(at, Kind::I32);
    let mask = t.take(mask, at, 0);
    let mask = t.shr(mask, bit);
    let mask = t.bit_and(mask, one);
    let (left_out, is_masked) = (t.eq(mask, zero), step.is_on(t, params::MASKED));
    let left_out = t.and(left_out, is_masked);
    let nan = t.is_nan(y);
    let left_out = t.or(left_out, nan);
    t.select(left_out, least, y)
}

/// The lowest id with the largest logit, u32, and that logit.
fn best(t: &mut Tape, logits: Reg) -> (Reg, Reg) {
    let max = t.reduce(Code::Max, logits, &[0], false);
    let id = t.with(Code::ArgMax, &[logits], &[0]);
    let id = t.reshape(id, &[]);
    (t.cast(id, Kind::U32), max)
}

/// How far logits are below the best one, in 2^-16 octaves of weight: u32, `FAR` at most.
pub(super) fn distances(t: &mut Tape, logits: Reg, max: Reg, scale: Reg) -> Reg {
    // As the reference has them, so that differences and products stay finite.
    const LARGEST: f32 = f32::from_bits((126 + 127) << 23);
    const FARTHEST: f32 = (1 << 25) as f32;
    let (largest, smallest) = (t.float(LARGEST), t.float(-LARGEST));
    let near = |t: &mut Tape, x: Reg| {
        let x = t.minimum(x, largest);
        t.maximum(x, smallest)
    };
    let (a, b) = (near(t, max), near(t, logits));
    let gap = t.sub(a, b);
    let farthest = t.float(FARTHEST);
    let gap = t.minimum(gap, farthest);
    let units = t.mul(gap, scale);
    let (far, far_units) = (t.integer(Kind::U32, FAR.into()), t.float(FAR as f32));
    // Without a temperature the scale is 0 and nothing is read; a NaN would have no value as an integer.
    let nan = t.is_nan(units);
    let units = t.select(nan, far_units, units);
    let units = t.minimum(units, far_units);
    let q = t.cast(units, Kind::U32);
    let least = t.float(f32::NEG_INFINITY);
    let nothing = t.eq(logits, least);
    t.select(nothing, far, q)
}

/// `a * b >> bits` of u64, `a` below 2^32 and `b` below 2^63, where the product may have more than 64 bits.
pub(super) fn wide_product(t: &mut Tape, a: Reg, b: Reg, bits: i64) -> Reg {
    let (by, low) = (t.integer(Kind::U64, bits), t.integer(Kind::U64, (1 << bits) - 1));
    let (high, low) = (t.shr(b, by), t.bit_and(b, low));
    let (high, low) = (t.mul(a, high), t.mul(a, low));
    let low = t.shr(low, by);
    t.add(high, low)
}

/// The weight of each distance: u64.
pub(super) fn weights(t: &mut Tape, q: Reg) -> Reg {
    // The polynomial of `rlx_core::sample::weight`, highest power first.
    const COEFFICIENTS: [i64; 6] =
        [2_034_856, 19_794_886, 118_784_456, 515_800_015, 1_488_517_413, 1 << 31];
    let q = t.cast(q, Kind::U64);
    let [low, sixteen, far, nothing] = [0xFFFF, 16, FAR.into(), 0].map(|n| t.integer(Kind::U64, n));
    let fraction = t.bit_and(q, low);
    let mut sum = t.integer(Kind::U64, COEFFICIENTS[0]);
    for c in &COEFFICIENTS[1..] {
        let c = t.integer(Kind::U64, *c);
        let product = t.mul(sum, fraction);
        let product = t.shr(product, sixteen);
        sum = t.sub(c, product);
    }
    let octaves = t.shr(q, sixteen);
    // A shift by 32 at most, of what lies far away too.
    let most = t.integer(Kind::U64, 32);
    let octaves = t.minimum(octaves, most);
    let weight = t.shr(sum, octaves);
    let is_far = t.ge(q, far);
    t.select(is_far, nothing, weight)
}

/// The drawn token.
fn draw(t: &mut Tape, step: &Step, logits: Reg, [best, max]: [Reg; 2]) -> Reg {
    let v = step.vocab;
    let scale = step.float(t, params::SCALE);
    let q = distances(t, logits, max, scale);
    // Keys in the order of (distance, id), none of them twice.
    let (wide, ids) = (t.cast(q, Kind::U64), t.arange(Kind::U64, v));
    let half = t.integer(Kind::U64, 32);
    let keys = t.shl(wide, half);
    let keys = t.bit_or(keys, ids);
    let sorted = t.with(Code::Sort, &[keys], &[0]);
    let in_order = t.shr(sorted, half);
    let kept = kept(t, step, in_order);
    // The last key that is kept: the kept ones stand first. Where none is, nothing weighs anything.
    let (one, none) = (t.integer(Kind::I32, 1), t.integer(Kind::I32, 0));
    let last = t.sub(kept, one);
    let last = t.maximum(last, none);
    let last = t.take(sorted, last, 0);
    let within = t.le(keys, last);
    let some = t.gt(kept, none);
    let within = t.and(within, some);
    let weight = weights(t, q);
    let min_p = step.word(t, params::MIN_P);
    let min_p = t.cast(min_p, Kind::U64);
    let heavy = t.ge(weight, min_p);
    let counts = t.and(within, heavy);
    let nothing = t.integer(Kind::U64, 0);
    let weight = t.select(counts, weight, nothing);
    let sums = t.cumsum(weight, 0);
    let total = t.element(sums, v, v - 1);
    let random = random(t, step);
    let target = wide_product(t, random, total, 32);
    let before = t.le(sums, target);
    let before = t.cast(before, Kind::I32);
    let id = t.reduce(Code::Sum, before, &[0], false);
    let end = t.integer(Kind::I32, v);
    let found = t.lt(id, end);
    let id = t.cast(id, Kind::U32);
    t.select(found, id, best)
}

/// How many of the distances in order top-k and then top-p keep: i32.
fn kept(t: &mut Tape, step: &Step, in_order: Reg) -> Reg {
    let far = t.integer(Kind::U64, FAR.into());
    let near = t.lt(in_order, far);
    let near = t.cast(near, Kind::I32);
    let near = t.reduce(Code::Sum, near, &[0], false);
    let (top_k, most) = (step.word(t, params::TOP_K), t.integer(Kind::U32, 0x7fff_ffff));
    let top_k = t.minimum(top_k, most);
    let (k, zero) = (t.cast(top_k, Kind::I32), t.integer(Kind::I32, 0));
    let fewer = t.minimum(near, k);
    let all = t.eq(k, zero);
    let first = t.select(all, near, fewer);
    // The shortest run whose weights reach the need.
    let place = t.arange(Kind::I32, step.vocab);
    let weight = weights(t, in_order);
    let (nothing, within) = (t.integer(Kind::U64, 0), t.lt(place, first));
    let weight = t.select(within, weight, nothing);
    let sums = t.cumsum(weight, 0);
    let total = t.element(sums, step.vocab, step.vocab - 1);
    let top_p = step.word(t, params::TOP_P);
    let share = t.cast(top_p, Kind::U64);
    let (need, one) = (wide_product(t, share, total, 31), t.integer(Kind::U64, 1));
    let need = t.maximum(need, one);
    let before = t.sub(sums, weight);
    let short = t.lt(before, need);
    let short = t.and(short, within);
    let short = t.cast(short, Kind::I32);
    let run = t.reduce(Code::Sum, short, &[0], false);
    let off = t.integer(Kind::U32, params::TOP_P_OFF.into());
    let is_off = t.ge(top_p, off);
    t.select(is_off, first, run)
}

/// The first word of Philox for the seed and the position: u64 below 2^32.
fn random(t: &mut Tape, step: &Step) -> Reg {
    let (past, len) = (step.ctl.word(t, control::PAST), step.ctl.word(t, control::LEN));
    let position = t.add(past, len);
    let zero = t.integer(Kind::U64, 0);
    let counter = [t.cast(position, Kind::U64), zero, zero, zero];
    let key = [params::SEED_LO, params::SEED_HI].map(|i| {
        let word = step.word(t, i);
        t.cast(word, Kind::U64)
    });
    philox(t, counter, key)[0]
}

/// Philox4x32-10 of words that are u64 below 2^32.
pub(super) fn philox(t: &mut Tape, counter: [Reg; 4], key: [Reg; 2]) -> [Reg; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    let [m0, m1, w0, w1, low, half] =
        [0xD251_1F53, 0xCD9E_8D57, 0x9E37_79B9, 0xBB67_AE85, 0xFFFF_FFFF, 32]
            .map(|n| t.integer(Kind::U64, n));
    for _ in 0..10 {
        let (left, right) = (t.mul(m0, c0), t.mul(m1, c2));
        let (left_high, right_high) = (t.shr(left, half), t.shr(right, half));
        let (left_low, right_low) = (t.bit_and(left, low), t.bit_and(right, low));
        let a = t.bit_xor(right_high, c1);
        let b = t.bit_xor(left_high, c3);
        [c0, c1, c2, c3] = [t.bit_xor(a, k0), right_low, t.bit_xor(b, k1), left_low];
        let (next0, next1) = (t.add(k0, w0), t.add(k1, w1));
        (k0, k1) = (t.bit_and(next0, low), t.bit_and(next1, low));
    }
    [c0, c1, c2, c3]
}

/// The counts with the token's next one, under penalties.
fn counted(t: &mut Tape, step: &Step, id: Reg) -> Reg {
    let ids = t.arange(Kind::U32, step.vocab);
    let (is_id, penalised) = (t.eq(ids, id), step.is_on(t, params::PENALTIES));
    let runs = step.ctl.runs(t);
    let full = t.integer(Kind::U32, GENERATED.into());
    let generated = t.bit_and(step.counts, full);
    let is_not_full = t.ne(generated, full);
    let adds = t.and(is_id, penalised);
    let adds = t.and(adds, runs);
    let adds = t.and(adds, is_not_full);
    let adds = t.cast(adds, Kind::U32);
    t.add(step.counts, adds)
}

/// The control block behind the token.
fn advanced(t: &mut Tape, step: &Step, id: Reg) -> Reg {
    let ctl = step.ctl;
    let (zero, one) = (t.integer(Kind::U32, 0), t.integer(Kind::U32, 1));
    let [past, len, count, limit, ring, capacity] = [
        control::PAST,
        control::LEN,
        control::STEP,
        control::LIMIT,
        control::RING,
        control::CAPACITY,
    ]
    .map(|i| ctl.word(t, i));
    let past = t.add(past, len);
    let count = t.add(count, one);
    let ring = t.add(ring, one);
    // Stop ids: as many of the words as the parameters say.
    let (from, most) = (params::STOP as i64, params::MAX_STOP_IDS as i64);
    let stops = t.slice(step.params, &[step.words], 0, from, from + most);
    let (places, n) = (t.arange(Kind::U32, most), step.word(t, params::N_STOP));
    let (is_one, is_id) = (t.lt(places, n), t.eq(stops, id));
    let is_stop = t.and(is_one, is_id);
    let is_stop = t.reduce(Code::Any, is_stop, &[0], false);
    let (at_limit, at_end) = (t.ge(count, limit), t.ge(past, capacity));
    let is_full = t.or(at_limit, at_end);
    let [stopped, full, running] =
        [control::STOPPED, control::FULL, control::RUNNING].map(|n| t.integer(Kind::U32, n.into()));
    let done = t.select(is_full, full, running);
    let done = t.select(is_stop, stopped, done);
    let mut words = [zero; control::WORDS];
    words[control::PAST] = past;
    words[control::LEN] = one;
    words[control::TOKEN] = id;
    words[control::STEP] = count;
    words[control::DONE] = done;
    words[control::LIMIT] = limit;
    words[control::RING] = ring;
    words[control::CAPACITY] = capacity;
    let words = words.map(|word| t.reshape(word, &[1]));
    let next = t.concat(&words, 0);
    let runs = ctl.runs(t);
    t.select(runs, next, ctl.0)
}
