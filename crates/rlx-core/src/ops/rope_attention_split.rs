//! Rotation, cache writes and the splits of one row's attention, in one step.

use super::{
    Attention, AttentionSplit, Class, Emit, Op, Operator, RopeKvWrite, RopeStyle, arity, attributes,
};
use crate::error::{Error, Result};
use crate::types::{Type, ValueId};
use alloc::vec::Vec;

/// `rope_attention_split q [1, H * E], k [1, K * E], v [1, K * E], table, kcache, vcache, ctl
/// -> acc, stats, kcache', vcache'`: [`RopeKvWrite`] of one row, and [`AttentionSplit`] of what it
/// makes. q' and k' never touch memory outside the cache.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeAttentionSplit {
    /// Which dimensions form a pair.
    pub style: RopeStyle,
    /// The attention, and how its positions are split.
    pub split: AttentionSplit,
}

attributes! { RopeAttentionSplit { split, style } }

impl RopeAttentionSplit {
    /// Its first half.
    pub(crate) fn rope(&self) -> RopeKvWrite {
        let Attention { head_dim, ring, .. } = self.split.whole;
        RopeKvWrite { style: self.style, head_dim, ring }
    }
}

impl Operator for RopeAttentionSplit {
    const NAME: &'static str = "rope_attention_split";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity(Self::NAME, operands, 7)?;
        let turned = self.rope().infer(operands)?;
        let [q, kcache, vcache] = turned.as_slice() else {
            return Err(Error::internal("rope_kv_write has three results"));
        };
        let mut results = self.split.infer(&[q, kcache, vcache, operands[6]])?;
        results.extend([kcache.clone(), vcache.clone()]);
        Ok(results)
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &ctl = operands.last().ok_or_else(|| Error::internal("rope_attention_split: arity"))?;
        let turned = e.emit(self.rope().into(), operands)?;
        let [q, kcache, vcache] = *turned.as_slice() else {
            return Err(Error::internal("rope_kv_write has three results"));
        };
        let mut results = e.emit(Op::from(self.split.clone()), &[q, kcache, vcache, ctl])?;
        results.extend([kcache, vcache]);
        Ok(Some(results))
    }

    fn writes(&self) -> &'static [(usize, usize)] {
        &[(4, 2), (5, 3)]
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(6)
    }
}
