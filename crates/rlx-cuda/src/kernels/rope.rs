//! `rope` rotates pairs of a head's dimensions; `rope_kv_write` also writes the rotated keys and the values to caches.

use super::kv_write::{describe_cache, is_cache};
use super::takes::{self, Taken};
use super::{Context, Emit, Kernel, THREADS, matrix, mismatch};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Op, RopeStyle};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// Rows of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["style", "head_dim"])?;
    takes::are_f32(operands.get(..2).unwrap_or_default())
}

/// Rows of f32, caches of one type that caches have.
pub(super) fn takes_writes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["style", "head_dim", "ring"])?;
    takes::are_f32(operands.get(..4).unwrap_or_default())?;
    let [.., keys, values, _] = operands else { return Err("it takes seven operands".into()) };
    is_cache(keys)?;
    if keys.dtype != values.dtype {
        return Err("its kernel writes caches of one type".into());
    }
    Ok(())
}

/// Defines what `rotation.cuh` reads.
///
/// # Errors
/// `Internal` for a table without three axes.
pub(super) fn describe(
    emit: &mut Emit<'_>,
    table: &Slice,
    head: u64,
    style: RopeStyle,
) -> Result<u64> {
    let &[rows, half, _] = table.ty.shape.static_dims()?.as_slice() else {
        return Err(Error::internal("rope: a table of three axes"));
    };
    // With L low rows there are more than L / 4 and at most L high rows, so that the sum tells L.
    let low = rows.div_ceil(2).next_power_of_two();
    emit.size("LOW", low)?;
    emit.size("HIGH", rows - low)?;
    emit.size("HALF", half)?;
    emit.size("HEAD", head)?;
    if style == RopeStyle::Adjacent {
        emit.define("ADJACENT", "");
    }
    Ok(half)
}

pub(super) fn rope(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Rope(op) = &step.op else { return Err(mismatch(step)) };
    let ((rows, width), head) = (matrix(&step.operands[0])?, op.head_dim as u64);
    if rows * width == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    for x in step.operands.iter().chain(&step.results) {
        emit.argument(x)?;
    }
    let half = describe(&mut emit, &step.operands[1], head, op.style)?;
    emit.size("ROWS", rows)?;
    emit.size("WIDTH", width)?;
    let of_a_row = width / head * (head - half);
    let text = concat!(include_str!("rotation.cuh"), include_str!("rope.cu"));
    let kernel = emit.kernel("rope", text, [(rows * of_a_row).div_ceil(128), 1, 1], 128)?;
    Ok(vec![kernel.by_tokens(cx.tokens(), 0, of_a_row, 128)])
}

pub(super) fn rope_kv_write(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::RopeKvWrite(op) = &step.op else { return Err(mismatch(step)) };
    let [q, k, _, table, cache, ..] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let ((rows, width), (_, kv_width)) = (matrix(q)?, matrix(k)?);
    if rows * (width + kv_width) == 0 {
        return Ok(Vec::new());
    }
    let head = op.head_dim as u64;
    let mut emit = cx.emit(step);
    for x in step.operands.iter().chain(step.results.first()) {
        emit.argument(x)?;
    }
    let half = describe(&mut emit, table, head, op.style)?;
    describe_cache(&mut emit, cache, op.ring)?;
    emit.size("ROWS", rows)?;
    emit.size("WIDTH", width)?;
    let queries = (width / head * (head - half)).div_ceil(THREADS);
    emit.size("QUERIES", queries)?;
    emit.size("THREADS", THREADS)?;
    let blocks = queries + (2 * kv_width).div_ceil(THREADS);
    let text = concat!(
        include_str!("rotation.cuh"),
        include_str!("cache_store.cuh"),
        include_str!("rope_kv_write.cu")
    );
    let kernel = emit.kernel("rope_kv_write", text, [blocks, rows, 1], THREADS as u32)?;
    Ok(vec![kernel.by_tokens(cx.tokens(), 1, 1, 1)])
}
