//! `interpolate`: every result is a weighted sum of its neighbours along all axes at once.
//!
//! A place between elements is a fraction of two integers. They are kept as integers: an f32 of a place has no digits
//! left for the weights of a wide image.

use super::product::describe_type;
use super::takes::{self, Taken};
use super::tensor_axes::{Sizes, product};
use super::{Context, Kernel, mismatch, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Interpolation, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A tensor of f32, f16 or bf16 whose places are integers of 32 bits.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["size", "mode", "align_corners", "antialias"])?;
    let (Op::Interpolate(op), [x]) = (op, operands) else { return Err("it takes an image".into()) };
    takes::are_floats(operands)?;
    for (size, n) in op.size.iter().zip(x.shape.0.iter().skip(2)) {
        let Some(n) = n.as_static() else { continue };
        let most = n.saturating_mul(*size).saturating_mul(2);
        if most.saturating_add(n.max(*size).saturating_mul(5)) >= 1 << 31 {
            return Err(format!("its kernel has no room to make {size} of {n}"));
        }
    }
    Ok(())
}

pub(super) fn interpolate(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Interpolate(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let (input, output) = (x.ty.shape.static_dims()?, y.ty.shape.static_dims()?);
    let n = product(&output)?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    describe_type(&mut emit, y.ty.dtype)?;
    emit.argument(x)?;
    emit.argument(y)?;
    // A block's threads count past the end.
    word(n.saturating_mul(2))?;
    let mut sizes = Sizes::given();
    emit.define_size("N", n, &mut sizes)?;
    // Three axes, of which the first ones may have one element.
    for (name, dims) in [("FROM", &input), ("TO", &output)] {
        let own = &dims[2..];
        let of = |axis: usize| (axis + own.len()).checked_sub(3).map_or(1, |at| own[at]);
        let [a, b, c] = [sizes.size(of(0))?, sizes.size(of(1))?, sizes.size(of(2))?];
        let list = format!("((axis) == 0 ? {a} : (axis) == 1 ? {b} : {c})");
        emit.define(&format!("{name}(axis)"), list);
    }
    emit.sizes(&sizes);
    let cubic = op.mode == Interpolation::Cubic;
    emit.define("IS_NEAREST", u8::from(op.mode == Interpolation::Nearest));
    emit.define("IS_CUBIC", u8::from(cubic));
    emit.define("IS_ALIGNED", u8::from(op.align_corners));
    emit.define("IS_WIDENED", u8::from(op.antialias));
    let text = include_str!("interpolate.cu");
    Ok(vec![emit.kernel("interpolate", text, [n.div_ceil(256), 1, 1], 256)?])
}
