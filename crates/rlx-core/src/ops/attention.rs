//! Causal attention over a cache, with grouped heads (arXiv:1706.03762, arXiv:2305.13245).

use super::{Attrs, Class, Operator, arity, control, matrix};
use crate::error::{Error, Result};
use crate::types::{Kind, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `attention q [S, H * E], kcache [K, C, E], vcache [K, C, E], ctl -> [S, H * E]`:
/// `softmax(cap(scale q k^T)) v` per head, where `cap(s) = softcap tanh(s / softcap)` if there is
/// one. Row `i` has position `p = past + i` and sees the cache's rows `0 ..= p`, or `p - window ..=
/// p` if there is a window; query head `h` reads key and value head `h * K / H`. Rows from `len` on
/// are whatever the executor leaves there: nothing reads them. `q` is of any float type, the
/// result's; both caches are of one float type.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Attention {
    /// Width of a head.
    pub head_dim: usize,
    /// Multiplies the scores, `1 / sqrt(E)` unless the model says otherwise.
    pub scale: f32,
    /// Rows that a row sees before its own, at most.
    pub window: Option<u64>,
    /// Bounds the scores.
    pub softcap: Option<f32>,
}

impl Attention {
    /// Over all of the past, with scores as they are.
    pub fn causal(head_dim: usize, scale: f32) -> Attention {
        Attention { head_dim, scale, window: None, softcap: None }
    }
}

impl Operator for Attention {
    const NAME: &'static str = "attention";
    const CLASS: Class = Class::Compute;

    fn attrs(&self) -> Attrs {
        let mut attrs =
            Attrs::none().int("head_dim", self.head_dim as u64).float("scale", self.scale);
        if let Some(window) = self.window {
            attrs = attrs.int("window", window);
        }
        match self.softcap {
            Some(softcap) => attrs.float("softcap", softcap),
            None => attrs,
        }
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["head_dim", "scale", "window", "softcap"])?;
        Ok(Attention {
            head_dim: attrs.get_int("head_dim")? as usize,
            scale: attrs.get_float("scale")?,
            window: attrs.opt_int("window")?,
            softcap: attrs.opt_float("softcap")?,
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
            && k.dtype.is_float()
            && (q.kind == Kind::Tensor && q.dtype.is_float())
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
