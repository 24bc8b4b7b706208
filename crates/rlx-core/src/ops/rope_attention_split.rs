//! Norms of heads, rotation, cache writes and the splits of one row's attention, in one step.

use super::{
    Attention, AttentionSplit, Class, Emit, Op, Operator, RmsNorm, RopeKvWrite, RopeStyle, arity,
    attributes, rules,
};
use crate::error::{Error, Result};
use crate::types::{Dim, Type, ValueId};
use alloc::format;
use alloc::vec::Vec;

/// `rope_attention_split q [1, H * E], k [1, K * E], v [1, K * E], table, kcache, vcache, ctl, (q_norm [E],
/// k_norm [E])? -> acc, stats, kcache', vcache'`: [`RopeKvWrite`] of one row, whose heads of q and k are normed
/// first if there are norms, and [`AttentionSplit`] of what it makes. q' and k' never touch memory outside the
/// cache.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeAttentionSplit {
    /// Which dimensions form a pair.
    pub style: RopeStyle,
    /// RMS norm of every head of q and k first, with this eps.
    pub norm: Option<f32>,
    /// The attention, and how its positions are split.
    pub split: AttentionSplit,
}

attributes! { RopeAttentionSplit { split, style, norm as "norm_eps" } }

/// The operands without norms.
const PLAIN: usize = 7;

impl RopeAttentionSplit {
    /// What follows the norms and is not the split.
    pub(crate) fn rope(&self) -> RopeKvWrite {
        let Attention { head_dim, ring, .. } = self.split.whole;
        RopeKvWrite { style: self.style, head_dim, ring }
    }
}

impl Operator for RopeAttentionSplit {
    const NAME: &'static str = "rope_attention_split";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        let norms = if self.norm.is_some() { 2 } else { 0 };
        arity(Self::NAME, operands, PLAIN + norms)?;
        let (plain, norms) = operands.split_at(PLAIN);
        let turned = self.rope().infer(plain)?;
        let [q, kcache, vcache] = turned.as_slice() else {
            return Err(Error::internal("rope_kv_write has three results"));
        };
        let head = Dim::from(self.split.whole.head_dim as u64);
        for (name, weight) in ["q_norm", "k_norm"].into_iter().zip(norms) {
            rules::vector(Self::NAME, name, weight, &head, q.dtype)?;
        }
        if q.shape.rows()?.as_static() != Some(1) {
            return Err(Error::bad_graph(format!("{}: q is {q}, expected one row", Self::NAME)));
        }
        let mut results = self.split.infer(&[q, kcache, vcache, operands[6]])?;
        results.extend([kcache.clone(), vcache.clone()]);
        Ok(results)
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let Some((plain, norms)) = operands.split_at_checked(PLAIN) else {
            return Err(Error::internal("rope_attention_split: arity"));
        };
        let mut plain = plain.to_vec();
        if let Some(eps) = self.norm {
            for (row, &weight) in plain.iter_mut().zip(norms) {
                let shape = e.ty(*row).shape.clone();
                let head = Dim::from(self.split.whole.head_dim as u64);
                let width = shape.last().as_static().unwrap_or(0);
                let heads = Dim::from(width / (self.split.whole.head_dim as u64).max(1));
                let split = e.reshape(*row, &[shape.rows()?, heads, head])?;
                let normed = e.one(RmsNorm { eps }, &[split, weight])?;
                *row = e.reshape(normed, &shape.0)?;
            }
        }
        let turned = e.emit(self.rope().into(), &plain)?;
        let [q, kcache, vcache] = *turned.as_slice() else {
            return Err(Error::internal("rope_kv_write has three results"));
        };
        let mut results = e.emit(Op::from(self.split.clone()), &[q, kcache, vcache, plain[6]])?;
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
