//! New rows of a key or value cache.

use super::{Class, Operator, RowUse, arity, attributes, control, matrix};
use crate::error::{Error, Result};
use crate::types::{BlockFormat, DType, Kind, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `kv_write cache [K, C, E], x [S, K * E], ctl -> cache'`: row `i < len` of `x` goes to the cache's row
/// `p = past + i` of every head, rounded to the cache's type; in a ring to row `p mod C`, where it takes the place
/// of the position `p - C`. Rows from `len` on write nothing, nor
/// does a control block that is done. `x` is of any float type, the cache too, or of `q8_0` or `q4_0`: blocks
/// of 32 along the head, each rounded as [`encode_q8_0`](crate::formats::activations::encode_q8_0) or
/// [`encode_q4_0`](crate::formats::activations::encode_q4_0) does.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct KvWrite {
    /// Whether the cache is a ring: it has the last `C` positions. Else it has the first, and no others may be
    /// written.
    pub ring: bool,
}

attributes! { KvWrite { ring } }

/// Whether a cache may be of this type, whatever its heads.
pub(crate) fn is_cache_type(dtype: DType) -> bool {
    dtype.is_float() || matches!(dtype, DType::Block(BlockFormat::Q8_0 | BlockFormat::Q4_0))
}

/// Whether a head's row in this type is whole blocks.
pub(super) fn holds_heads(dtype: DType, head_dim: Option<u64>) -> bool {
    is_cache_type(dtype) && head_dim.is_some_and(|e| dtype.row_bytes(e).is_some())
}

/// Checks that a cache is `[K, C, E]` of a type that holds its heads, and that `x` is `[S, K * E]`.
pub(super) fn check_cache(name: &str, cache: &Type, x: &Type) -> Result<()> {
    let (_, width) = matrix(name, "x", x)?;
    let dims = match cache.shape.0.as_slice() {
        [k, _, e] => k.as_static().zip(e.as_static()),
        _ => None,
    };
    let ok = cache.kind == Kind::State
        && holds_heads(cache.dtype, cache.shape.last().as_static())
        && x.dtype.is_float()
        && dims.and_then(|(k, e)| k.checked_mul(e)).is_some_and(|n| width.as_static() == Some(n));
    if ok {
        return Ok(());
    }
    Err(Error::bad_graph(format!(
        "{name}: cache is {cache}, expected a state [heads, capacity, head_dim] of floats, or of q8_0 or \
         q4_0 with heads of whole blocks, to match x {x}"
    )))
}

impl Operator for KvWrite {
    const NAME: &'static str = "kv_write";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("kv_write", operands, 3)?;
        check_cache("kv_write", operands[0], operands[1])?;
        control("kv_write", operands[2])?;
        Ok(vec![operands[0].clone()])
    }

    fn writes(&self) -> &'static [(usize, usize)] {
        &[(0, 0)]
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 1 { RowUse::Live } else { RowUse::All }
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(2)
    }
}
