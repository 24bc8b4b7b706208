//! The rows of attention that their splits make.

use super::{AttentionSplit, Class, Operator, RowUse, arity, attributes, control, expect, matrix};
use crate::error::{Error, Result};
use crate::types::{DType, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `attention_join acc [K * S * R, H / K * E], stats [K * S * R, H / K * 2], (q [N, H * E], ctl)?, (sinks [H])?
/// -> [N, H * E]`: what [`Attention`](super::Attention) gives, of [`AttentionSplit`]'s results. For each row and
/// head, over its splits `j` with the maxima `m_j`, and the largest of them `M`:
///
/// ```text
/// y = sum exp(m_j - M) acc_j / sum exp(m_j - M) sum_j
/// ```
///
/// A split whose maximum is minus infinity weighs nothing; a maximum that is NaN is not the
/// largest. A sink is a split of its own: its maximum is the sink, its sum 1, its acc 0. All are f32.
///
/// One row has neither `q` nor `ctl`. Of several, `q` is what was split: it says how many rows and heads there are,
/// and none of its numbers is read. Rows from `len` on are whatever the executor leaves there.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionJoin {
    /// Splits of each key and value head for all tiles, 1 or more.
    pub splits: usize,
    /// Whether heads have sinks.
    pub sinks: bool,
}

attributes! { AttentionJoin { splits, sinks } }

/// Operands of several rows, without sinks.
const SEVERAL: usize = 4;

impl AttentionJoin {
    /// `q` and the control block of several rows; `None` for one.
    pub fn several<T>(operands: &[T]) -> Option<(&T, &T)> {
        match operands {
            [_, _, q, ctl, ..] => Some((q, ctl)),
            _ => None,
        }
    }
}

impl Operator for AttentionJoin {
    const NAME: &'static str = "attention_join";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        let several = AttentionJoin::several(operands);
        let plain = several.map_or(2, |_| SEVERAL);
        arity("attention_join", operands, plain + usize::from(self.sinks))?;
        let (&[acc, stats, ..], sinks) = (operands, operands.get(plain)) else {
            return Err(Error::internal("attention_join: arity was checked"));
        };
        let (rows, columns) = matrix("attention_join", "acc", acc)?;
        let (_, pairs) = matrix("attention_join", "stats", stats)?;
        let pair = Type::tensor(DType::F32, Shape(vec![rows.clone(), pairs.clone()]));
        expect("attention_join", "stats", stats, &pair)?;
        let [rows, columns, pairs] = [rows, columns, pairs].map(|n| n.as_static());
        let splits = self.splits as u64;
        let groups = pairs.unwrap_or(0) / 2;
        // Whole splits of key and value heads, and `groups` query heads of each.
        let sizes = rows.zip(columns).zip(pairs).and_then(|((rows, columns), pairs)| {
            let heads = pairs > 0 && pairs % 2 == 0 && columns % (pairs / 2) == 0;
            let n = several.map_or(Some(1), |(q, _)| q.shape.0.first()?.as_static())?;
            let tile = AttentionSplit::tile(n, groups);
            let each = splits.checked_mul(tile).filter(|&each| each > 0 && rows % each == 0)?;
            let whole = heads && n.div_ceil(tile) <= splits && acc.dtype == DType::F32;
            let kv_heads = Some(rows / each).filter(|_| whole)?;
            Some((n, kv_heads.checked_mul(groups)?, kv_heads.checked_mul(columns)?))
        });
        let (rows, heads, width) = sizes.ok_or_else(|| {
            Error::bad_graph(format!(
                "attention_join: acc is {acc} and stats {stats}, expected f32 rows of {splits} splits \
                 with two numbers for each head"
            ))
        })?;
        let y = Type::tensor(DType::F32, Shape::of(&[rows, width]));
        if let Some((q, ctl)) = several {
            expect("attention_join", "q", q, &y)?;
            control("attention_join", ctl)?;
        }
        if let Some(sinks) = sinks {
            let need = Type::tensor(DType::F32, Shape::of(&[heads]));
            expect("attention_join", "sinks", sinks, &need)?;
        }
        Ok(vec![y])
    }

    fn row_use(&self, operand: usize, operands: &[&Type]) -> RowUse {
        let q = operand == 2 && AttentionJoin::several(operands).is_some();
        if q { RowUse::Same } else { RowUse::All }
    }

    fn control(&self, operands: usize) -> Option<usize> {
        (operands >= SEVERAL).then_some(SEVERAL - 1)
    }
}
