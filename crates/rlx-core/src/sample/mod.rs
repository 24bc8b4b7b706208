//! The sampler: from logits to a token, in integers, the same token on every device.
//!
//! Floats end early. A logit `l` becomes its distance below the best one in units of 2^-16 octaves,
//! `q = trunc((max - l) * scale)`, one subtraction and one product that every device rounds alike
//! (it truncates: some GPUs contract the `x + 0.5` of a rounding with the product before it); from
//! there on all is integer: weights ([`weight()`]), sums (64 bits), random numbers ([`philox`]).
//! Equal logits, parameters and position give equal tokens. Under penalties a device may fuse a
//! multiply with an add, so there a tie may break differently.
//!
//! In order, each over what the one before kept:
//!
//! 1. penalties, then biases; NaN counts as `-inf`, and so does a token that the mask leaves out; without any
//!    logit above `-inf` the token is 0
//! 2. greedy: the lowest id with the largest logit, and that is all
//! 3. top-k: the first `k` tokens in the order of (distance, id)
//! 4. top-p: in that order the shortest run whose weights reach `max(1, total * P >> 31)`,
//!    `P = round(top_p * 2^31)`, the product taken in full; never empty
//! 5. min-p: tokens of at least that weight; the best one weighs 2^31 and stays
//! 6. the draw: `r` is Philox's first word for key = seed, counter = (`past + len`, 0, 0, 0); the
//!    token is the first in id order whose cumulative weight exceeds `r * total >> 32`, so shares
//!    are exact to 2^-32 of the whole
//!
//! [`predict`] and [`canvas`] are the counterparts for models that fill blocks, in the same integers.
//!
//! A kernel of an executor is the same algorithm, step by step: whoever changes one changes all.
//!
//! ```
//! use rlx_core::sample::{Control, SampleParams, Scratch, sample};
//!
//! let params = SampleParams { temperature: 0.7, top_k: 2, ..SampleParams::default() };
//! params.validate()?;
//! let mut control = Control { len: 1, limit: 8, capacity: 64, ..Control::default() };
//! let logits = [0.5, 3.0, -1.0, 2.5];
//! let id = sample(&logits, &params.to_words(), &mut [], &mut control, &mut Scratch::default());
//! assert!(id == 1 || id == 3);
//! assert_eq!((control.token, control.past), (id, 1));
//! # Ok::<(), rlx_core::Error>(())
//! ```

use alloc::vec::Vec;

pub mod canvas;
pub mod control;
mod likely;
pub mod params;
pub mod philox;
mod predict;
pub mod weight;

pub use control::Control;
pub use likely::{Likely, LogProb, MOST_LIKELY, likely};
pub use params::SampleParams;
pub use predict::{CERTAIN, PLAIN_SCALE, predict};

use weight::{FAR, weight};

/// Bit of a counts word: the token occurs in the prompt. The upper half is [`bias_word`].
pub const IN_PROMPT: u32 = 1 << 15;
/// Bits of a counts word that count the token's generations; full, they stay as they are.
pub const GENERATED: u32 = IN_PROMPT - 1;

/// The upper half of a counts word: what is added to the token's logit, in 256ths, signed.
pub fn bias_word(bias: f32) -> u32 {
    let units = (bias * 256.0 + if bias < 0.0 { -0.5 } else { 0.5 }) as i16;
    u32::from(units as u16) << 16
}

/// Memory that [`sample`] reuses: at most 8 bytes a logit once it has grown.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    penalised: Vec<f32>,
    distances: Vec<u32>,
}

/// Chooses a token, counts it and advances `control`; returns its id.
///
/// `logits` is `f32[vocab]`, `params` is [`SampleParams::to_words`] and behind it the mask, `counts` is
/// `u32[vocab]` ([`IN_PROMPT`]), read and written only under penalties or biases; a word that mask or counts lack
/// reads as 0 and is not written. When `control` is done already, or parameters are missing, nothing changes and
/// its last token comes back.
pub fn sample(
    logits: &[f32],
    params: &[u32],
    counts: &mut [u32],
    control: &mut Control,
    scratch: &mut Scratch,
) -> u32 {
    let Some((params, mask)) = params.split_first_chunk::<{ params::WORDS }>() else {
        return control.token;
    };
    if control.done != control::RUNNING {
        return control.token;
    }
    let Scratch { penalised, distances } = scratch;
    let has_penalties = params[params::PENALTIES] != 0;
    let is_masked = params[params::MASKED] != 0;
    let logits = if has_penalties || is_masked {
        penalised.clear();
        penalised.extend_from_slice(logits);
        if has_penalties {
            penalise(penalised, params, counts);
        }
        if is_masked {
            leave_out(penalised, mask);
        }
        penalised.as_slice()
    } else {
        logits
    };

    let (best_id, max) = best(logits);
    let id = if params[params::GREEDY] != 0 || max == f32::NEG_INFINITY {
        best_id
    } else {
        let scale = f32::from_bits(params[params::SCALE]);
        distances.clear();
        distances.extend(logits.iter().map(|&logit| distance(logit, max, scale)));
        draw(distances, keep(distances, params), params, control.position()).unwrap_or(best_id)
    };

    if has_penalties && let Some(word) = counts.get_mut(id as usize) {
        *word += u32::from(*word & GENERATED != GENERATED);
    }
    let n_stop = params[params::N_STOP] as usize;
    let is_stop = params[params::STOP..].iter().take(n_stop).any(|&stop| stop == id);
    control.advance(id, is_stop);
    id
}

fn penalise(logits: &mut [f32], params: &[u32; params::WORDS], counts: &[u32]) {
    let repetition = f32::from_bits(params[params::REPETITION]);
    let reciprocal = f32::from_bits(params[params::REPETITION_RECIPROCAL]);
    let frequency = f32::from_bits(params[params::FREQUENCY]);
    let presence = f32::from_bits(params[params::PRESENCE]);
    for (logit, &word) in logits.iter_mut().zip(counts) {
        if word & (IN_PROMPT | GENERATED) != 0 {
            *logit *= if *logit > 0.0 { reciprocal } else { repetition };
        }
        let n_generated = word & GENERATED;
        if n_generated > 0 {
            *logit -= frequency * n_generated as f32 + presence;
        }
        *logit += (word as i32 >> 16) as f32 / 256.0;
    }
}

/// Tokens whose bits are 0 are never chosen.
fn leave_out(logits: &mut [f32], mask: &[u32]) {
    let words = mask.iter().copied().chain(core::iter::repeat(0));
    for (logits, word) in logits.chunks_mut(32).zip(words).filter(|(_, word)| *word != u32::MAX) {
        for (bit, logit) in logits.iter_mut().enumerate() {
            if word >> bit & 1 == 0 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
}

/// The lowest id with the largest logit, and that logit; id 0 when none is above `-inf`.
fn best(logits: &[f32]) -> (u32, f32) {
    // Chunks are searched for the value only, which vectorises; then one of them for the id.
    const CHUNK: usize = 1024;
    let mut start = 0;
    let mut max = f32::NEG_INFINITY;
    for (i, chunk) in logits.chunks(CHUNK).enumerate() {
        let chunk_max = max_of(chunk);
        if chunk_max > max {
            (start, max) = (i * CHUNK, chunk_max);
        }
    }
    if max == f32::NEG_INFINITY {
        return (0, max);
    }
    let within = logits[start..].iter().position(|&logit| logit == max).unwrap_or(0);
    ((start + within) as u32, max)
}

/// The largest logit, in independent lanes so that it vectorises. A comparison with NaN is false.
fn max_of(logits: &[f32]) -> f32 {
    let larger = |max: f32, logit: f32| if logit > max { logit } else { max };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (rows, rest) = logits.as_chunks::<16>();
    for row in rows {
        for (lane, &logit) in lanes.iter_mut().zip(row) {
            *lane = larger(*lane, logit);
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |max, &logit| larger(max, logit))
}

/// `q`: how far `logit` is below `max`, in 2^-16 octaves of weight, at most [`FAR`].
fn distance(logit: f32, max: f32, scale: f32) -> u32 {
    // Keeps both the difference and the product finite, since a GPU need not have infinities:
    // |l| <= 2^126, and 2^25 * scale is FAR or more at any temperature up to 100 (scale >= 945).
    const LARGEST: f32 = f32::from_bits((126 + 127) << 23);
    const FARTHEST: f32 = (1 << 25) as f32;
    if logit == f32::NEG_INFINITY {
        return FAR;
    }
    let gap = max.clamp(-LARGEST, LARGEST) - logit.clamp(-LARGEST, LARGEST);
    // `min` turns NaN into the bound: FAR.
    (gap.min(FARTHEST) * scale).min(FAR as f32) as u32
}

/// Keeps the tokens that stand before it in the order of (distance, id).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cut {
    q: u32,
    id: u32,
}

impl Cut {
    fn keeps(self, q: u32, id: usize) -> bool {
        q < self.q || (q == self.q && (id as u32) < self.id)
    }
}

/// What top-k and then top-p keep.
fn keep(distances: &[u32], params: &[u32; params::WORDS]) -> Cut {
    let mut cut = Cut { q: FAR, id: 0 };
    let top_k = params[params::TOP_K];
    if top_k != 0 {
        cut = tighten(distances, cut, |_| 1, |_| u64::from(top_k));
    }
    let top_p = params[params::TOP_P];
    if top_p < params::TOP_P_OFF {
        let need = |total: u64| ((u128::from(total) * u128::from(top_p)) >> 31) as u64;
        cut = tighten(distances, cut, weight, |total| need(total).max(1));
    }
    cut
}

/// The first cut whose tokens add up to `need(total)`, a token at distance `q` being worth
/// `worth(q)`; `cut` itself when all it keeps is less than that.
///
/// A radix selection: the sums of 2^10 bins of 2^11 distances, then the counts of each distance
/// of the one bin in which the need is met, then the ids of that distance.
fn tighten(
    distances: &[u32],
    cut: Cut,
    worth: impl Fn(u32) -> u32,
    need: impl FnOnce(u64) -> u64,
) -> Cut {
    const FINE_BITS: u32 = 11;
    let kept = || distances.iter().enumerate().filter(|&(id, &q)| cut.keeps(q, id));

    let mut coarse = [0u64; (FAR >> FINE_BITS) as usize];
    for (_, &q) in kept() {
        coarse[(q >> FINE_BITS) as usize] += u64::from(worth(q));
    }
    let need = need(coarse.iter().sum());
    let Some((bin, need)) = reach(coarse.into_iter(), need) else { return cut };

    let first = (bin as u32) << FINE_BITS;
    let mut fine = [0u32; 1 << FINE_BITS];
    for (_, &q) in kept() {
        if q >> FINE_BITS == bin as u32 {
            fine[(q - first) as usize] += 1;
        }
    }
    let sums = (first..).zip(fine).map(|(q, n)| u64::from(n) * u64::from(worth(q)));
    let Some((bin, need)) = reach(sums, need) else { return cut };

    let q = first + bin as u32;
    let n_ties = need.div_ceil(u64::from(worth(q)));
    if n_ties >= u64::from(fine[bin]) {
        return cut.min(Cut { q: q + 1, id: 0 });
    }
    let last = kept().filter(|&(_, &at)| at == q).nth(n_ties as usize - 1);
    last.map_or(cut, |(id, _)| Cut { q, id: id as u32 + 1 })
}

/// The index at which the running sum reaches `need`, and what is still needed there, at least 1.
fn reach(sums: impl Iterator<Item = u64>, mut need: u64) -> Option<(usize, u64)> {
    for (i, sum) in sums.enumerate() {
        if sum >= need {
            return Some((i, need));
        }
        need -= sum;
    }
    None
}

/// Draws one of the kept tokens by weight. Valid parameters always keep the best one.
fn draw(distances: &[u32], cut: Cut, params: &[u32; params::WORDS], position: u32) -> Option<u32> {
    const BLOCKS: usize = 256;
    let kept_weight = |id: usize| {
        let q = distances[id];
        let weight = if cut.keeps(q, id) { weight(q) } else { 0 };
        if weight >= params[params::MIN_P] { u64::from(weight) } else { 0 }
    };
    // Sums of blocks of ids first, so that the second walk is one block long.
    let block = distances.len().div_ceil(BLOCKS);
    let ids = |b: usize| (b * block).min(distances.len())..((b + 1) * block).min(distances.len());
    let sums: [u64; BLOCKS] = core::array::from_fn(|b| ids(b).map(kept_weight).sum());
    let total: u64 = sums.iter().sum();

    let key = [params[params::SEED_LO], params[params::SEED_HI]];
    let [random, ..] = philox::philox4x32_10([position, 0, 0, 0], key);
    let target = ((u128::from(random) * u128::from(total)) >> 32) as u64;

    // To exceed the target is to reach target + 1.
    let (b, need) = reach(sums.into_iter(), target + 1)?;
    let (within, _) = reach(ids(b).map(kept_weight), need)?;
    Some((ids(b).start + within) as u32)
}
