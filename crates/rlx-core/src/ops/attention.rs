//! Causal attention over a cache, with grouped heads (arXiv:1706.03762, arXiv:2305.13245).

use super::{Attrs, Class, Operator, arity, control, matrix};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `attention q [S, H * E] f32, kcache [K, C, E], vcache [K, C, E], ctl -> [S, H * E] f32`:
/// `softmax(scale q k^T) v` per head. Row `i` has position `past + i` and sees the cache's rows
/// `0 ..= past + i`; query head `h` reads key and value head `h * K / H`. Rows from `len` on are
/// whatever the executor leaves there: nothing reads them.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Width of a head.
    pub head_dim: usize,
    /// Multiplies the scores, `1 / sqrt(E)` unless the model says otherwise.
    pub scale: f32,
}

impl Operator for Attention {
    const NAME: &'static str = "attention";
    const CLASS: Class = Class::Compute;

    fn attrs(&self) -> Attrs {
        Attrs::none().int("head_dim", self.head_dim as u64).float("scale", self.scale)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["head_dim", "scale"])?;
        Ok(Attention {
            head_dim: attrs.get_int("head_dim")? as usize,
            scale: attrs.get_float("scale")?,
        })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("attention", operands, 4)?;
        let [q, k, v, ctl] = operands else {
            return Err(Error::internal("attention: arity was checked"));
        };
        control("attention", ctl)?;
        let (_, width) = matrix("attention", "q", q)?;
        let heads = |t: &Type| match t.shape.0.as_slice() {
            [h, _, e] if t.kind == Kind::State && e.as_static() == Some(self.head_dim as u64) => {
                h.as_static()
            }
            _ => None,
        };
        let q_heads = width.as_static().map(|w| w / (self.head_dim as u64).max(1));
        let ok = k == v
            && matches!(k.dtype, DType::F32 | DType::F16)
            && q.dtype == DType::F32
            && heads(k).zip(q_heads).is_some_and(|(kv, h)| {
                kv > 0 && h % kv == 0 && width.as_static() == Some(h * self.head_dim as u64)
            });
        if !ok {
            return Err(Error::bad_graph(format!(
                "attention: q is {q}, k {k}, v {v}; expected whole heads of {} and caches whose \
                 heads divide the query's",
                self.head_dim
            )));
        }
        Ok(vec![(*q).clone()])
    }
}
