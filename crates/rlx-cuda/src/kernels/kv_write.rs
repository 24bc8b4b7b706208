//! `kv_write`: new rows of a cache.

use super::takes::{self, Taken};
use super::{Context, Emit, Kernel, cache_type, matrix, mismatch, unsupported};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// Rows of f32, caches of floats or of `q8_0`.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["ring"])?;
    let [cache, x, _] = operands else { return Err("it takes three operands".into()) };
    takes::is_f32(1, x)?;
    is_cache(cache)
}

/// Refuses a cache that kernels do not read.
pub(super) fn is_cache(ty: &Type) -> Taken {
    let head = ty.shape.last().as_static().unwrap_or(0);
    match cache_type(ty.dtype, head) {
        Some(_) => Ok(()),
        None => Err(format!("it has no caches of {} with heads of {head}", ty.dtype)),
    }
}

/// Defines what `cache_store.cuh` reads, but for the width of a head, and the cache's heads.
///
/// # Errors
/// `Internal` for a cache without three axes.
pub(super) fn describe_cache(emit: &mut Emit<'_>, cache: &Slice, ring: bool) -> Result<()> {
    let &[heads, capacity, head] = cache.ty.shape.static_dims()?.as_slice() else {
        return Err(Error::internal("kv_write: a cache of three axes"));
    };
    let (number, _) =
        cache_type(cache.ty.dtype, head).ok_or_else(|| unsupported("a cache".into()))?;
    emit.define("CACHE_TYPE", number);
    emit.size("HEADS", heads)?;
    emit.size("CAPACITY", capacity)?;
    if ring {
        emit.define("RING", "");
    }
    Ok(())
}

pub(super) fn kv_write(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::KvWrite(op) = &step.op else { return Err(mismatch(step)) };
    let [cache, x, ctl] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let (rows, width) = matrix(x)?;
    if rows * width == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    for operand in [cache, x, ctl] {
        emit.argument(operand)?;
    }
    describe_cache(&mut emit, cache, op.ring)?;
    emit.size("HEAD", cache.ty.shape.last().as_static().unwrap_or(0))?;
    emit.size("ROWS", rows)?;
    let blocks = (rows * width).div_ceil(128);
    let text = concat!(include_str!("cache_store.cuh"), include_str!("kv_write.cu"));
    Ok(vec![emit.kernel("kv_write", text, [blocks, 1, 1], 128)?])
}
