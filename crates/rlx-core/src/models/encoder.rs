//! What encoders of texts share: their inputs, what is pooled of their rows, and their sizes.
//!
//! Batches are padded at their end. The mask is 1 for a real token and 0 for padding, which no real
//! row sees: a text gives the same alone and in any batch.

use super::keys::Keys;
use super::pooling::{Pooling, PoolingKind};
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::ops::{
    Binary, Cast, Compare, Comparison, Constant, Iota, Map, Reduce, Reduction, Reshape, Select,
    Slice, Unary, Zip,
};
use crate::types::{BATCH, DType, Dim, SEQ, Shape, Type};
use alloc::format;
use alloc::vec;

/// Inputs of an encoder.
pub(super) struct TextInputs {
    /// `[BATCH, SEQ]`, u32.
    pub ids: Tensor,
    /// `[BATCH, SEQ]`, u32: which part of a pair each token is in.
    pub types: Option<Tensor>,
    /// `[BATCH, SEQ]`, bool: whether a token is real.
    pub real: Tensor,
    /// The same as 1 and 0 in f32.
    pub mask: Tensor,
}

/// `input_ids`, `token_type_ids` where there are types, and `attention_mask`.
pub(super) fn inputs(m: &mut Module, types: bool) -> TextInputs {
    let mut words = |name: &str| m.input(name, Type::tensor(DType::U32, Shape::batch_seq_2d()));
    let ids = words("input_ids");
    let types = types.then(|| words("token_type_ids"));
    let mask = words("attention_mask");
    let real = m.op(Cast { to: DType::BOOL }, &[mask], "attention_mask_real");
    let mask = m.op(Cast { to: DType::F32 }, &[real], "attention_mask_f32");
    TextInputs { ids, types, real, mask }
}

/// `f(a, b)`.
pub(super) fn zip(m: &mut Module, f: Binary, [a, b]: [Tensor; 2], label: &str) -> Tensor {
    m.op(Zip { f }, &[a, b], label)
}

fn number(m: &mut Module, x: f64, label: &str) -> Result<Tensor> {
    Ok(m.op(Constant::scalar(DType::F32, x)?, &[], label))
}

/// `f` along an axis of `x`.
fn reduce(m: &mut Module, f: Reduction, keep: bool, x: Tensor, label: &str) -> Tensor {
    m.op(Reduce { f, axes: vec![1], keep }, &[x], label)
}

/// Names the outputs: `hidden` `[BATCH, SEQ, width]`, and `embedding` `[BATCH, width]` if the rows
/// are pooled.
pub(super) fn outputs(
    m: &mut Module,
    hidden: Tensor,
    inputs: &TextInputs,
    pooling: Pooling,
    width: u64,
) -> Result<()> {
    m.output("hidden", hidden);
    if let Some(pooled) = pool(m, hidden, inputs, pooling.kind, width)? {
        let pooled = if pooling.normalise { normalised(m, pooled)? } else { pooled };
        m.output("embedding", pooled);
    }
    Ok(())
}

fn pool(
    m: &mut Module,
    hidden: Tensor,
    inputs: &TextInputs,
    kind: PoolingKind,
    width: u64,
) -> Result<Option<Tensor>> {
    let (batch, seq, one) = (Dim::symbol(BATCH), Dim::symbol(SEQ), Dim::from(1u64));
    // Rows where a condition `[BATCH, SEQ]` holds, and a number elsewhere: what stands in rows of padding
    // is never computed with.
    let keep = |m: &mut Module, cond: Tensor, other: f64| -> Result<Tensor> {
        let dims = Shape(vec![batch.clone(), seq.clone(), one.clone()]);
        let cond = m.op(Reshape { dims }, &[cond], "pool_rows");
        let other = number(m, other, "pool_else")?;
        Ok(m.op(Select, &[cond, hidden, other], "pool_kept"))
    };
    Ok(Some(match kind {
        PoolingKind::None => return Ok(None),
        PoolingKind::Mean => {
            let kept = keep(m, inputs.real, 0.0)?;
            let sum = reduce(m, Reduction::Sum, false, kept, "pool_sum");
            let count = reduce(m, Reduction::Sum, true, inputs.mask, "pool_count");
            // A text without a token has the vector 0.
            let least = number(m, 1.0, "pool_least")?;
            let count = zip(m, Binary::Max, [count, least], "pool_divisor");
            zip(m, Binary::Div, [sum, count], "pool")
        }
        PoolingKind::Cls => {
            let first = Slice { axis: 1, start: Dim::from(0u64), len: one.clone(), step: 1 };
            let first = m.op(first, &[hidden], "pool_first");
            let dims = Shape(vec![batch.clone(), Dim::from(width)]);
            m.op(Reshape { dims }, &[first], "pool")
        }
        PoolingKind::Last => {
            // Positions from 1 on; 0 where nothing is real, which none is equal to.
            let dims = Shape(vec![seq.clone()]);
            let at = m.op(Iota { dtype: DType::F32, dims, axis: 0 }, &[], "pool_index");
            let first = number(m, 1.0, "pool_first")?;
            let at = zip(m, Binary::Add, [at, first], "pool_position");
            let real = zip(m, Binary::Mul, [inputs.mask, at], "pool_real");
            let last = reduce(m, Reduction::Max, true, real, "pool_last");
            let is_last = m.op(Compare { f: Comparison::Eq }, &[at, last], "pool_is_last");
            let kept = keep(m, is_last, 0.0)?;
            reduce(m, Reduction::Sum, false, kept, "pool")
        }
        PoolingKind::Max => {
            let kept = keep(m, inputs.real, f64::from(f32::MIN))?;
            reduce(m, Reduction::Max, false, kept, "pool")
        }
    }))
}

/// Rows divided by their lengths; rows of length 0 stay so.
fn normalised(m: &mut Module, x: Tensor) -> Result<Tensor> {
    let squares = zip(m, Binary::Mul, [x, x], "normalise_squares");
    let sum = reduce(m, Reduction::Sum, true, squares, "normalise_sum");
    let length = m.op(Map { f: Unary::Sqrt }, &[sum], "normalise_length");
    let least = number(m, 1e-12, "normalise_least")?;
    let length = zip(m, Binary::Max, [length, least], "normalise_divisor");
    Ok(zip(m, Binary::Div, [x, length], "normalise"))
}

/// The first rows of a table, as many as a text has tokens: one for each position. A text that is
/// longer than the table is an error of the program that binds its length.
pub(super) fn first_rows(m: &mut Module, table: Tensor, dtype: DType, label: &str) -> Tensor {
    let rows = Slice { axis: 0, start: Dim::from(0u64), len: Dim::symbol(SEQ), step: 1 };
    let rows = m.op(rows, &[table], label);
    match dtype {
        DType::F32 => rows,
        _ => m.op(Cast { to: DType::F32 }, &[rows], &format!("{label}_f32")),
    }
}

/// Width of a head.
///
/// # Errors
/// `BadFile` where heads do not divide the rows.
pub(super) fn head_dim(keys: &Keys<'_>, key: &str, dim: u64, heads: u64) -> Result<u64> {
    if !dim.is_multiple_of(heads) {
        return Err(keys.bad(key, format!("{heads} heads do not divide rows of {dim}")));
    }
    Ok(dim / heads)
}

/// Keys of GGUF files of encoders that say what follows from others: as many key heads as query heads, all
/// as wide as rows divided by heads.
///
/// # Errors
/// `Unsupported` for other sizes.
pub(super) fn plain_heads(keys: &Keys<'_>, heads: u64, head_dim: u64) -> Result<()> {
    for (key, expected) in [
        ("attention.head_count_kv", heads),
        ("attention.key_length", head_dim),
        ("attention.value_length", head_dim),
    ] {
        if let Some(n) = keys.opt_u64(key)?.filter(|&n| n != expected) {
            let what = format!("{key} is {n}, and only {expected} is supported here");
            return Err(keys.unsupported(key, what, "use a model with plain attention"));
        }
    }
    Ok(())
}

/// Heads of a twin: at least two, with rows of the same remainder.
pub(super) fn fewer_heads(heads: u64, head_dim: u64) -> u64 {
    let width = |n: u64| n * head_dim % 256;
    (2..heads).find(|&n| width(n) == width(heads)).unwrap_or(heads)
}

/// A twin's row of that width: short, with the same remainder.
pub(super) fn row(n: u64) -> u64 {
    if n <= 512 { n } else { 256 + n % 256 }
}
