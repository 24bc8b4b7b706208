//! Attention over parts of its positions, for executors with more workers than heads.

use super::{Attention, Class, Operator, RowUse, attributes};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// `attention_split q [N, H * E], kcache [K, C, E], vcache [K, C, E], ctl
/// -> acc [K * S * R, H / K * E], stats [K * S * R, H / K * 2]`: [`Attention`], undivided, its positions in
/// splits. `R` rows are a tile, which has splits of its own: one row is a tile with all `S` splits; of several rows
/// as many as have [`QUERIES`](AttentionSplit::QUERIES) query heads of a key and value head are one, and at least
/// one row. The `t = ceil(len / R)` tiles that have rows share the splits: each has `J = floor(S / t)`, so that few
/// rows have many. Row `((k S + i J) + j) R + r` is of key and value head `k` and of row `r` in tile `i`, over the
/// positions of split `j`. It has for each query head of that head's group, with `s` the scores of those
/// positions that the row sees,
///
/// ```text
/// stats   max s, sum exp(s - max s)        acc   sum exp(s - max s) v
/// ```
///
/// Of the `n` positions from the first that a tile's first row sees to the last that its last one sees, each split
/// has `max(least, ceil(n / J))`, rounded up to whole blocks of 32, as long as there are any. A row that sees none
/// of a split's, or whose scores are all minus infinity, has the maximum minus infinity, and zeros; in `acc` of
/// several rows it has whatever the executor leaves there. A score that is NaN is no maximum, but its sums are NaN.
/// All tensors are f32. [`AttentionJoin`](super::AttentionJoin) makes the rows of these; results are whatever the
/// executor leaves there for rows from `len` on, and in rows of no tile.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSplit {
    /// What is split.
    pub whole: Attention,
    /// Splits of each key and value head for all tiles: no fewer than tiles, and 1 or more.
    pub splits: usize,
    /// Fewer positions than these are not worth a worker of their own.
    pub least: usize,
}

attributes! { AttentionSplit { whole, splits, least } }

impl AttentionSplit {
    /// Positions of a split are a multiple of it: what kernels take at a time.
    pub const BLOCK: usize = 32;
    /// Query heads of a tile of several rows, at most, unless one row has more: what kernels take at a time.
    pub const QUERIES: u64 = 32;

    /// Rows of a tile, where there are so many rows in all and so many query heads to a key and value head.
    pub fn tile(rows: u64, group: u64) -> u64 {
        if rows < 2 { 1 } else { (Self::QUERIES / group.max(1)).max(1) }
    }

    /// The positions of split `j` of `splits` where the tile sees `seen`.
    pub fn positions(&self, seen: Range<usize>, splits: usize, j: usize) -> Range<usize> {
        let each = seen.len().div_ceil(splits.max(1)).max(self.least);
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
        if self.whole.half {
            return Err(Error::bad_graph("attention_split: it rounds no queries to 11 bits"));
        }
        let (heads, kv_heads) = self.whole.heads("attention_split", operands)?;
        let (q, group) = (operands[0], heads / kv_heads);
        let rows = q.shape.0.first().and_then(|rows| rows.as_static()).filter(|&rows| rows > 0);
        let results = rows.and_then(|rows| {
            let tile = Self::tile(rows, group);
            let enough = rows.div_ceil(tile) <= self.splits as u64 && q.dtype == DType::F32;
            let splits = kv_heads.checked_mul(self.splits as u64).filter(|_| enough)?;
            splits.checked_mul(tile)
        });
        let rows = results.ok_or_else(|| {
            Error::bad_graph(format!(
                "attention_split: q is {q} in {} splits, expected rows of f32 and a split or more for each tile of \
                 them",
                self.splits
            ))
        })?;
        let result = |columns: u64| Type {
            kind: Kind::Tensor,
            dtype: DType::F32,
            shape: Shape::of(&[rows, columns]),
        };
        Ok(vec![result(group * self.whole.head_dim as u64), result(2 * group)])
    }

    /// The results have rows for tiles and splits, and read those of q that are there.
    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 0 { RowUse::Live } else { RowUse::All }
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
            let all: Vec<_> = (0..splits).map(|j| op.positions(seen.clone(), splits, j)).collect();
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
