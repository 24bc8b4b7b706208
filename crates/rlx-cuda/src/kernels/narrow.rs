//! `matmul` of rows of f16 or bf16 with weights of that type: the library's own product, which adds a bias and a
//! residual and rounds once. A function of the sum is a kernel of its own behind it.
//!
//! `M` rows by `N` columns of `K` take `2 M N K` operations, and move `2 (M K + N K + M N)` bytes. Few rows, sizes that
//! are no multiples of 8, and cards without a library have tiles of 64 by 64 instead.

use super::library::is_aligned;
use super::product::{Added, describe_type, of_rows};
use super::takes::{self, Taken};
use super::{Context, Kernel, Product, Work, matrix, mismatch, scalar, word};
use crate::driver::Floats;
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Epilogue, MatMul, Op, Unary};
use rlx_core::types::{DType, Type};

/// The library's floats for rows of this type.
fn floats(dtype: DType) -> Option<Floats> {
    match dtype {
        DType::F16 => Some(Floats::F16),
        DType::BF16 => Some(Floats::Bf16),
        _ => None,
    }
}

/// Whether a matmul's rows are narrow.
pub(super) fn is_narrow(step: &Step) -> bool {
    step.operands.first().is_some_and(|x| floats(x.ty.dtype).is_some())
}

/// Rows, weights, biases and a residual of one narrow type. `x` is operand 0.
pub(super) fn takes(op: &MatMul, x: &Type, operands: &[&Type]) -> Taken {
    if op.norm.is_some() || matches!(op.epilogue, Epilogue::Glu(_)) {
        return Err(format!("its kernel has no norm and no gated unit for rows of {}", x.dtype));
    }
    for (i, ty) in operands.iter().enumerate() {
        takes::is_float(i, ty)?;
        if ty.dtype != x.dtype {
            return Err(format!(
                "its kernel multiplies rows of {} by weights of that type, not of {}",
                x.dtype, ty.dtype
            ));
        }
    }
    Ok(())
}

/// A product of a step: x, weight and result, and what is added.
struct One<'a> {
    of: [&'a Slice; 3],
    bias: Option<&'a Slice>,
    residual: Option<&'a Slice>,
    /// A function of the sum.
    map: Option<Unary>,
}

fn products(step: &Step) -> Result<Vec<One<'_>>> {
    let Op::MatMul(op) = &step.op else { return Err(mismatch(step)) };
    let parts = op.parts();
    let operand = |at: usize| step.operands.get(at).ok_or_else(|| mismatch(step));
    let one = |(i, y)| {
        let of = [operand(0)?, operand(parts.weights + i)?, y];
        let bias = parts.biases.map(|first| operand(first + i)).transpose()?;
        let residual = parts.residual.map(operand).transpose()?;
        let map = if let Epilogue::Map(f) = op.epilogue { Some(f) } else { None };
        Ok(One { of, bias, residual, map })
    };
    step.results.iter().enumerate().map(one).collect()
}

/// The library's products; `None` where it has none of this form.
pub(super) fn by_library(step: &Step, cx: &Context<'_>) -> Result<Option<Vec<Work>>> {
    let Some(x) = step.operands.first().filter(|_| step.part.is_none()) else {
        return Ok(None);
    };
    let floats = floats(x.ty.dtype).filter(|floats| cx.card.multiplies(*floats));
    let (Some(floats), (m, k)) = (floats, matrix(x)?) else { return Ok(None) };
    let mut work = Vec::new();
    for One { of: [x, w, y], bias, residual, map } in products(step)? {
        let (n, _) = matrix(w)?;
        if m < 2 || k == 0 || n == 0 || !k.is_multiple_of(8) || !n.is_multiple_of(8) {
            return Ok(None);
        }
        for slice in [x, w, y].into_iter().chain(bias).chain(residual) {
            if !is_aligned(slice, step, cx)? {
                return Ok(None);
            }
        }
        let emit = cx.emit(step);
        work.push(Work::Product(Product {
            x: emit.place(x)?,
            w: emit.place(w)?,
            y: emit.place(y)?,
            rows: word(m)?,
            columns: word(n)?,
            k: word(k)?,
            floats,
            bias: bias.map(|b| emit.place(b)).transpose()?,
            residual: residual.map(|r| emit.place(r)).transpose()?,
            per_token: cx.live(step),
        }));
        if let Some(f) = map {
            work.push(Work::Kernel(apply(step, cx, y, f)?));
        }
    }
    Ok(Some(work))
}

/// A function of each number of a product.
fn apply(step: &Step, cx: &Context<'_>, y: &Slice, f: Unary) -> Result<Kernel> {
    let mut emit = cx.emit(step);
    describe_type(&mut emit, y.ty.dtype)?;
    emit.argument(y)?;
    emit.apply(scalar::unary(f));
    let eights = y.ty.shape.elements()? / 8;
    emit.size("N", eights)?;
    emit.kernel("apply_in_place", include_str!("apply.cu"), [eights.div_ceil(256), 1, 1], 256)
}

/// The same by tiles.
pub(super) fn by_tiles(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for One { of, bias, residual, map } in products(step)? {
        let bias = bias.map(|b| (b, Added::ToColumns));
        let added: Vec<_> = bias.into_iter().chain(residual.map(|r| (r, Added::ToAll))).collect();
        if of[2].ty.shape.elements()? > 0 {
            kernels.extend(of_rows(step, cx, of, (&added, map))?);
        }
    }
    Ok(kernels)
}
