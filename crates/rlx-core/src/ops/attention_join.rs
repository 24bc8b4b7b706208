//! The row of attention that its splits make.

use super::{Class, Operator, arity, attributes, expect, matrix};
use crate::error::{Error, Result};
use crate::types::{DType, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `attention_join acc [K * S, H / K * E], stats [K * S, H / K * 2], (sinks [H])? -> [1, H * E]`: what
/// [`Attention`](super::Attention) gives, of [`AttentionSplit`](super::AttentionSplit)'s results. For each
/// head, over its splits `j` with the maxima `m_j`, and the largest of them `M`:
///
/// ```text
/// y = sum exp(m_j - M) acc_j / sum exp(m_j - M) sum_j
/// ```
///
/// A split whose maximum is minus infinity weighs nothing; a maximum that is NaN is not the
/// largest. A sink is a split of its own: its maximum is the sink, its sum 1, its acc 0. All are f32.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionJoin {
    /// Splits of each key and value head, 1 or more.
    pub splits: usize,
    /// Whether heads have sinks.
    pub sinks: bool,
}

attributes! { AttentionJoin { splits, sinks } }

impl Operator for AttentionJoin {
    const NAME: &'static str = "attention_join";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("attention_join", operands, 2 + usize::from(self.sinks))?;
        let &[acc, stats, ref sinks @ ..] = operands else {
            return Err(Error::internal("attention_join: arity was checked"));
        };
        let (rows, columns) = matrix("attention_join", "acc", acc)?;
        let (_, pairs) = matrix("attention_join", "stats", stats)?;
        let pair = Type::tensor(DType::F32, Shape(vec![rows.clone(), pairs.clone()]));
        expect("attention_join", "stats", stats, &pair)?;
        let [rows, columns, pairs] = [rows, columns, pairs].map(|n| n.as_static());
        let splits = self.splits as u64;
        let groups = pairs.unwrap_or(0) / 2;
        let width = rows.zip(columns).zip(pairs).and_then(|((rows, columns), pairs)| {
            let heads = pairs > 0 && pairs % 2 == 0 && columns % (pairs / 2) == 0;
            let whole = splits > 0 && rows % splits == 0 && acc.dtype == DType::F32;
            (heads && whole).then(|| (rows / splits).checked_mul(columns)).flatten()
        });
        let width = width.ok_or_else(|| {
            Error::bad_graph(format!(
                "attention_join: acc is {acc} and stats {stats}, expected f32 rows of {splits} splits \
                 with two numbers for each head"
            ))
        })?;
        for sinks in sinks {
            // Whole splits of key heads, and `groups` query heads of each.
            let heads = rows.unwrap_or(0) / splits * groups;
            let need = Type::tensor(DType::F32, Shape::of(&[heads]));
            expect("attention_join", "sinks", sinks, &need)?;
        }
        Ok(vec![Type::tensor(DType::F32, Shape::of(&[1, width]))])
    }
}
