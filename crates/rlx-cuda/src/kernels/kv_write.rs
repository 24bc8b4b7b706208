//! `kv_write`: new rows of a cache.

use super::takes::{self, Taken};
use super::{Context, Kernel, cache_type, matrix, mismatch, unsupported};
use rlx_core::ir::lir::Step;
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

pub(super) fn kv_write(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::KvWrite(op) = &step.op else { return Err(mismatch(step)) };
    let [cache, x, ctl] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let &[heads, capacity, head] = cache.ty.shape.static_dims()?.as_slice() else {
        return Err(Error::internal("kv_write: a cache of three axes"));
    };
    let (rows, width) = matrix(x)?;
    if rows * width == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    for operand in [cache, x, ctl] {
        emit.argument(operand)?;
    }
    let (number, _) =
        cache_type(cache.ty.dtype, head).ok_or_else(|| unsupported("a cache".into()))?;
    emit.define("CACHE_TYPE", number);
    emit.size("HEADS", heads)?;
    emit.size("CAPACITY", capacity)?;
    emit.size("HEAD", head)?;
    emit.size("ROWS", rows)?;
    if op.ring {
        emit.define("RING", "");
    }
    let threads = rows * width;
    Ok(vec![emit.kernel(
        "kv_write",
        include_str!("kv_write.cu"),
        [threads.div_ceil(128), 1, 1],
        128,
    )?])
}
