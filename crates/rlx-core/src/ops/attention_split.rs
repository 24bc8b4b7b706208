//! One row's attention over parts of its positions, for executors with more workers than heads.

use super::{Attention, Class, Operator, attributes};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// `attention_split q [1, H * E], kcache [K, C, E], vcache [K, C, E], ctl
/// -> acc [K * S, H / K * E], stats [K * S, H / K * 2]`: [`Attention`] of one row, undivided, its
/// positions in `S` splits. Row `k S + j` is split `j` of key and value head `k`, and has for each
/// query head of that head's group, with `s` the scores of the split's positions,
///
/// ```text
/// stats   max s, sum exp(s - max s)        acc   sum exp(s - max s) v
/// ```
///
/// Of the `n` positions that the row sees each split has
/// `max(least, ceil(n / S))`, rounded up to whole blocks of 32, as long as there are any. A split that
/// is left with none, or whose scores are all minus infinity, has the maximum minus infinity, and
/// zeros. A score that is NaN is no maximum, but its sums are NaN. All tensors are f32.
/// [`AttentionJoin`](super::AttentionJoin) makes the row of these; results are whatever the executor
/// leaves there if `len` is 0.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSplit {
    /// What is split.
    pub whole: Attention,
    /// Splits of each key and value head, 1 or more.
    pub splits: usize,
    /// Fewer positions than these are not worth a worker of their own.
    pub least: usize,
}

attributes! { AttentionSplit { whole, splits, least } }

impl AttentionSplit {
    /// Positions of a split are a multiple of it: what kernels take at a time.
    pub const BLOCK: usize = 32;

    /// The positions of split `j` where the row sees `seen`.
    pub fn positions(&self, seen: Range<usize>, j: usize) -> Range<usize> {
        let each = seen.len().div_ceil(self.splits.max(1)).max(self.least);
        let each = each.next_multiple_of(Self::BLOCK);
        let at = |j: usize| each.saturating_mul(j).saturating_add(seen.start).min(seen.end);
        at(j)..at(j + 1)
    }
}

impl Operator for AttentionSplit {
    const NAME: &'static str = "attention_split";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        if self.whole.sinks {
            return Err(Error::bad_graph("attention_split: sinks belong to attention_join"));
        }
        let (heads, kv_heads) = self.whole.heads("attention_split", operands)?;
        let q = operands[0];
        let one = q.shape.0.first().and_then(|rows| rows.as_static()) == Some(1);
        let rows = kv_heads.checked_mul(self.splits as u64).filter(|&n| n > 0);
        let (Some(rows), true, DType::F32) = (rows, one, q.dtype) else {
            return Err(Error::bad_graph(format!(
                "attention_split: q is {q} in {} splits, expected one row of f32 in 1 or more",
                self.splits
            )));
        };
        let group = heads / kv_heads;
        let result = |columns: u64| Type {
            kind: Kind::Tensor,
            dtype: DType::F32,
            shape: Shape::of(&[rows, columns]),
        };
        Ok(vec![result(group * self.whole.head_dim as u64), result(2 * group)])
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_whole_blocks_of_no_less_than_the_least() {
        let ends = |start: usize, n: usize, splits: usize| -> Vec<usize> {
            let op = AttentionSplit { whole: Attention::causal(8, 1.0), splits, least: 256 };
            let seen = start..start + n;
            let all: Vec<_> = (0..splits).map(|j| op.positions(seen.clone(), j)).collect();
            assert_eq!(all[0].start, start);
            assert!(all.windows(2).all(|w| w[0].end == w[1].start));
            assert_eq!(all[splits - 1].end, start + n, "every position is in a split");
            all.iter().map(|r| r.end - start).collect()
        };
        assert_eq!(ends(0, 1, 3), [1, 1, 1]);
        assert_eq!(ends(5, 256, 2), [256, 256]);
        assert_eq!(ends(5, 257, 2), [256, 257]);
        assert_eq!(ends(0, 512, 2), [256, 512]);
        assert_eq!(ends(0, 513, 2), [288, 513]);
        assert_eq!(ends(7, 4000, 3), [1344, 2688, 4000]);
        assert_eq!(ends(0, 0, 2), [0, 0]);
    }
}
