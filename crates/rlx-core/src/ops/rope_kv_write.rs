//! Rotation of q and k and both cache writes, in one step.

use super::{
    Class, Emit, KvWrite, Operator, Rope, RopeStyle, RowUse, arity, attributes, control, kv_write,
    matrix, rope,
};
use crate::error::{Error, Result};
use crate::types::{Kind, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `rope_kv_write q [S, H * E], k [S, K * E], v [S, K * E], table, kcache, vcache, ctl
/// -> q' [S, H * E], kcache', vcache'`: [`Rope`](super::Rope) of q and k, and
/// [`KvWrite`](super::KvWrite) of k and v, which have the type of q. k' never touches memory outside the cache.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeKvWrite {
    /// Which dimensions form a pair.
    pub style: RopeStyle,
    /// Width of a head.
    pub head_dim: usize,
    /// Whether the caches are rings.
    pub ring: bool,
}

attributes! { RopeKvWrite { style, head_dim, ring } }

impl Operator for RopeKvWrite {
    const NAME: &'static str = "rope_kv_write";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("rope_kv_write", operands, 7)?;
        let [q, k, v, table, kcache, vcache, ctl] = operands else {
            return Err(Error::internal("rope_kv_write: arity was checked"));
        };
        rope::check_table("rope_kv_write", table, self.head_dim)?;
        kv_write::check_cache("rope_kv_write", kcache, k)?;
        kv_write::check_cache("rope_kv_write", vcache, v)?;
        control("rope_kv_write", ctl)?;
        let (rows, width) = matrix("rope_kv_write", "q", q)?;
        let e = self.head_dim as u64;
        let whole = e > 0 && width.as_static().is_some_and(|w| w % e == 0);
        let same_rows = [k, v].iter().all(|x| x.shape.0.first() == Some(&rows));
        let same_type = q.dtype.is_float() && [k, v].iter().all(|x| x.dtype == q.dtype);
        if q.kind != Kind::Tensor || !same_type || !whole || !same_rows {
            return Err(Error::bad_graph(format!(
                "rope_kv_write: q is {q}, expected float rows of whole heads of {e} to match k {k} and v {v}"
            )));
        }
        if [kcache, vcache].iter().any(|c| c.shape.last().as_static() != Some(e)) {
            return Err(Error::bad_graph(format!(
                "rope_kv_write: caches are {kcache} and {vcache}, expected heads of {e}"
            )));
        }
        Ok(vec![(*q).clone(), (*kcache).clone(), (*vcache).clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [q, k, v, table, kcache, vcache, ctl] = *operands else {
            return Err(Error::internal("rope_kv_write: arity"));
        };
        let rope = Rope { style: self.style, head_dim: self.head_dim };
        let q = e.one(rope.clone(), &[q, table, ctl])?;
        let k = e.one(rope, &[k, table, ctl])?;
        let write = KvWrite { ring: self.ring };
        let kcache = e.one(write.clone(), &[kcache, k, ctl])?;
        Ok(Some(vec![q, kcache, e.one(write, &[vcache, v, ctl])?]))
    }

    fn writes(&self) -> &'static [(usize, usize)] {
        &[(4, 1), (5, 2)]
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        match operand {
            0 => RowUse::Same,
            1 | 2 => RowUse::Live,
            _ => RowUse::All,
        }
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(6)
    }
}
