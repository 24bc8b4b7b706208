//! The sampler of block diffusion: a row of logits to a token and its probability, in integers.
//!
//! Weights and distances are those of [`sample`](super::sample), at temperature 1 where sampling is greedy. Where a
//! position has no token yet, the mask has its share of the whole like any other token, but is never chosen: the
//! position would stay as it is.
//!
//! 1. NaN counts as `-inf`; without any logit above `-inf` the token is the lowest that may be chosen, with
//!    probability 0
//! 2. min-p, unless sampling is greedy: tokens of at least that weight
//! 3. greedy: the lowest id with the largest logit; else `r` is Philox's first word for key = seed, counter =
//!    (position, pass, 0, 0), and the token is the first in id order whose cumulative weight exceeds `r * total >> 32`;
//!    where nothing else is kept, the greedy one
//! 4. its probability is `floor(2^31 weight / total)`, of all that is kept

use super::params::{self, GREEDY, MIN_P, SEED_HI, SEED_LO};
use super::weight::weight;
use super::{distance, max_of, philox};

/// Probability 1.
pub const CERTAIN: u32 = 1 << 31;

/// Units of a distance for each unit of logit at temperature 1: `65536 log2(e)`.
pub const PLAIN_SCALE: f32 = 94_548.46;

/// A token for a row of logits `f32[vocab]` and its probability in units of 2^-31. `params` is
/// [`SampleParams::to_words`](super::SampleParams::to_words); the token `never` is not chosen. The random number
/// depends on the seed, the position and the pass.
pub fn predict(
    logits: &[f32],
    params: &[u32; params::WORDS],
    never: Option<u32>,
    [position, pass]: [u32; 2],
) -> (u32, u32) {
    let max = max_of(logits);
    let others = || (0u32..).zip(logits).filter(|&(id, _)| Some(id) != never);
    // A comparison with NaN is false.
    let larger = |best: (u32, f32), (id, &logit): (u32, &f32)| {
        if logit > best.1 { (id, logit) } else { best }
    };
    let (best, _) = others().fold((u32::from(never == Some(0)), f32::NEG_INFINITY), larger);
    if max == f32::NEG_INFINITY {
        return (best, 0);
    }
    let greedy = params[GREEDY] != 0;
    let scale = if greedy { PLAIN_SCALE } else { f32::from_bits(params[params::SCALE]) };
    let least = if greedy { 0 } else { params[MIN_P] };
    let kept = |logit: f32| match weight(distance(logit, max, scale)) {
        w if w >= least => w,
        _ => 0,
    };
    let total: u64 = logits.iter().map(|&logit| u64::from(kept(logit))).sum();
    let mut id = best;
    if !greedy {
        let own = never.and_then(|id| logits.get(id as usize));
        let own = own.map_or(0, |&logit| u64::from(kept(logit)));
        let key = [params[SEED_LO], params[SEED_HI]];
        let [random, ..] = philox::philox4x32_10([position, pass, 0, 0], key);
        let mut need = ((u128::from(random) * u128::from(total - own)) >> 32) as u64;
        for (other, &logit) in others() {
            let weight = u64::from(kept(logit));
            if need < weight {
                id = other;
                break;
            }
            need -= weight;
        }
    }
    let chosen = logits.get(id as usize).map_or(0, |&logit| kept(logit));
    let share = (u64::from(chosen) << 31).checked_div(total).unwrap_or(0);
    (id, share as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math;
    use crate::sample::SampleParams;
    use alloc::vec::Vec;

    fn share(confidence: u32) -> f64 {
        f64::from(confidence) / f64::from(CERTAIN)
    }

    #[test]
    fn the_scale_is_that_of_temperature_1() {
        let words = SampleParams { temperature: 1.0, ..SampleParams::default() }.to_words();
        assert_eq!(words[params::SCALE], PLAIN_SCALE.to_bits());
    }

    #[test]
    fn greedy_takes_the_largest_with_its_share_of_a_softmax() {
        let logits = [0.5f32, 2.0, -1.0, 2.0];
        let (id, confidence) = predict(&logits, &SampleParams::default().to_words(), None, [0; 2]);
        let sum: f64 = logits.iter().map(|&l| math::exp(f64::from(l))).sum();
        assert_eq!(id, 1, "ties to the lower id");
        assert!((share(confidence) - math::exp(2.0) / sum).abs() < 1e-5);
    }

    #[test]
    fn what_is_not_chosen_has_its_share() {
        let logits = [1.0f32, 5.0, 2.0];
        let sum: f64 = logits.iter().map(|&l| math::exp(f64::from(l))).sum();
        let greedy = SampleParams::default().to_words();
        let (id, confidence) = predict(&logits, &greedy, Some(1), [0; 2]);
        assert_eq!(id, 2);
        assert!((share(confidence) - math::exp(2.0) / sum).abs() < 1e-5);
        assert_eq!(predict(&logits, &greedy, None, [0; 2]).0, 1);
        // Where min-p leaves that alone, the best other one stands, and is not likely.
        let alone = SampleParams { temperature: 1.0, min_p: 0.5, ..SampleParams::default() };
        assert_eq!(predict(&logits, &alone.to_words(), Some(1), [0; 2]), (2, 0));
    }

    #[test]
    fn rows_without_a_number_give_a_token_of_probability_0() {
        let nan = [f32::NAN, f32::NEG_INFINITY, f32::NAN];
        let greedy = SampleParams::default().to_words();
        assert_eq!(predict(&nan, &greedy, Some(0), [0; 2]), (1, 0));
        assert_eq!(predict(&nan, &greedy, Some(2), [0; 2]), (0, 0));
        assert_eq!(predict(&[1.0], &greedy, None, [0; 2]), (0, CERTAIN));
    }

    #[test]
    fn draws_depend_on_seed_position_and_pass_and_come_in_their_shares() {
        let logits = [0.0f32, 1.0, 3.0, 2.0];
        let params = |seed| SampleParams { temperature: 1.5, seed, ..SampleParams::default() };
        let words = params(7).to_words();
        let draw = |words: &[u32; 32], n: u32| predict(&logits, words, Some(2), [n / 64, n % 64]).0;
        let all: Vec<u32> = (0..20_000).map(|n| draw(&words, n)).collect();
        let weights = [0.0f64, 1.0, f64::NEG_INFINITY, 2.0].map(|l| math::exp(l / 1.5));
        let sum: f64 = weights.iter().sum();
        for (id, weight) in (0u32..).zip(weights) {
            let n = all.iter().filter(|&&drawn| drawn == id).count();
            assert!((n as f64 / 20_000.0 - weight / sum).abs() < 0.02, "{id} came {n} times");
        }
        assert!((0..64).any(|n| draw(&params(8).to_words(), n) != draw(&words, n)));
        assert_eq!(
            predict(&logits, &words, Some(2), [5, 9]),
            predict(&logits, &words, Some(2), [5, 9])
        );
    }
}
