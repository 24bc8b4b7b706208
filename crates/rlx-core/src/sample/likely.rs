//! How likely tokens were, from a row of logits: what a caller is told beside the token.

use crate::math::{expf, log};
use alloc::vec::Vec;

/// Tokens told beside the chosen one, at most.
pub const MOST_LIKELY: usize = 20;

/// A token's logarithm of its probability at temperature 1, before penalties and biases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogProb {
    /// The token.
    pub id: u32,
    /// The natural logarithm of its probability; `-inf` where the logit is, or is NaN.
    pub logprob: f32,
}

/// How likely a chosen token was, and which ones were the likeliest.
#[derive(Clone, Debug, PartialEq)]
pub struct Likely {
    /// The chosen token.
    pub chosen: LogProb,
    /// The likeliest tokens, the best first; of equal ones the lower id.
    pub top: Vec<LogProb>,
}

/// How likely the token `id` is by these logits, and the `n` likeliest, at most [`MOST_LIKELY`].
pub fn likely(logits: &[f32], id: u32, n: usize) -> Likely {
    let number = |logit: f32| if logit.is_nan() { f32::NEG_INFINITY } else { logit };
    let max = logits.iter().copied().map(number).fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(expf(number(logit) - max))).sum();
    let rest = log(sum);
    let of = |id: u32| {
        let logit = logits.get(id as usize).copied().map_or(f32::NEG_INFINITY, number);
        let logprob =
            if logit == f32::NEG_INFINITY { logit } else { (f64::from(logit - max) - rest) as f32 };
        LogProb { id, logprob }
    };
    let n = n.min(MOST_LIKELY).min(logits.len());
    let mut best: Vec<(f32, u32)> = Vec::with_capacity(n + 1);
    for (id, &logit) in logits.iter().enumerate() {
        let logit = number(logit);
        if best.len() == n && best.last().is_none_or(|last| logit <= last.0) {
            continue;
        }
        let at = best.partition_point(|other| other.0 >= logit);
        best.insert(at, (logit, id as u32));
        best.truncate(n);
    }
    Likely { chosen: of(id), top: best.into_iter().map(|(_, id)| of(id)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn probabilities_are_those_of_the_whole_row() {
        let logits = [1.0, f32::NAN, 3.0, 3.0, f32::NEG_INFINITY, -200.0];
        let all = (1f64.exp() + 2.0 * 3f64.exp()).ln();
        let Likely { chosen, top } = likely(&logits, 0, 3);
        assert!((f64::from(chosen.logprob) - (1.0 - all)).abs() < 1e-6 && chosen.id == 0);
        assert_eq!(top.iter().map(|t| t.id).collect::<Vec<_>>(), [2, 3, 0]);
        assert!((f64::from(top[1].logprob) - (3.0 - all)).abs() < 1e-6);
        assert_eq!(likely(&logits, 1, 0).chosen.logprob, f32::NEG_INFINITY);
        assert_eq!(likely(&logits, 0, 0).top, vec![]);
        assert_eq!(likely(&logits, 0, 99).top.len(), 6);
        assert_eq!(likely(&[0.0; 30], 29, 99).top.last().unwrap().id, 19);
    }

    #[test]
    fn a_row_of_nothing_has_no_probabilities() {
        let Likely { chosen, top } = likely(&[f32::NEG_INFINITY; 2], 0, 1);
        assert_eq!((chosen.logprob, top[0].logprob), (f32::NEG_INFINITY, f32::NEG_INFINITY));
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let chosen = likely(&[1e30, 1e30], 1, 0).chosen;
        assert!((chosen.logprob - 0.5f32.ln()).abs() < 1e-6);
    }
}
