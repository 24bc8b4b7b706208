//! `conv`: a product whose second operand is found while it is read, so that no columns are stored; where a group has a
//! filter or three, every result on its own.
//!
//! A convolution takes `2 C / groups * taps` operations for each result. In tiles it reads the filters for each 64
//! places, and x once a tap for each 64 filters, neighbouring taps from a cache.

use super::product::{TILE, describe_type, operand};
use super::sliding::{fits, sliding};
use super::takes::{self, Taken};
use super::tensor_axes::{Axes, Sizes, product};
use super::{Context, Kernel, mismatch, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Tensors of f32, f16 or bf16 over one to three spatial axes.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["stride", "pad_low", "pad_high", "dilation", "groups", "bias"])?;
    let (Op::Conv(op), [x, ..]) = (op, operands) else { return Err("it takes an image".into()) };
    takes::are_floats(operands)?;
    fits(&op.window, x.shape.0.get(2..).unwrap_or_default())
}

pub(super) fn conv(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Conv(op) = &step.op else { return Err(mismatch(step)) };
    let [x, w, bias @ ..] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let (input, kernel) = (x.ty.shape.static_dims()?, w.ty.shape.static_dims()?);
    let output = y.ty.shape.static_dims()?;
    let n = product(&output)?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let (taps, places) = (product(&kernel[2..])?, product(&output[2..])?);
    let (own, depth) = (kernel[0] / op.groups.max(1), kernel[1]);
    let mut emit = cx.emit(step);
    describe_type(&mut emit, y.ty.dtype)?;
    for slice in [x, w, y].into_iter().chain(bias) {
        emit.argument(slice)?;
    }
    if op.bias {
        emit.define("BIAS", "");
    }
    let each = own == 1 || (own < 4 && op.groups > 1);
    // Tiles find an element for every product; the other kernel has many forms, and one text for them.
    let mut sizes = if each { Sizes::given() } else { Sizes::InText };
    let plane = product(&input[2..])?;
    for (name, n) in
        [("CHANNELS", input[1]), ("DEPTH", depth), ("TAPS", taps.max(1)), ("PLANE", plane)]
    {
        emit.define_size(name, n, &mut sizes)?;
    }
    sliding(&mut emit, &op.window, &kernel[2..], &input[2..], &output[2..], &mut sizes)?;
    if each {
        // A block's threads count past the end.
        word(n.saturating_mul(2))?;
        for (name, n) in [("N", n), ("FILTERS", kernel[0]), ("OWN", own), ("PLACES", places)] {
            emit.define_size(name, n, &mut sizes)?;
        }
        emit.sizes(&sizes);
        let grid = [n.div_ceil(256), 1, 1];
        return Ok(vec![emit.kernel("conv_each", include_str!("conv_each.cu"), grid, 256)?]);
    }
    emit.size("FILTERS", kernel[0])?;
    emit.size("OWN", own)?;
    emit.size("PLACES", places)?;
    let (k, columns) = (product(&[depth, taps])?, product(&[input[0], places])?);
    // Kernels add to both.
    word(k.max(columns).saturating_mul(2))?;
    emit.size("K", k)?;
    emit.size("COLUMNS", columns)?;
    let rows = Axes { dims: vec![own], strides: vec![k] };
    let groups = Axes { dims: vec![op.groups], strides: vec![product(&[own, k])?] };
    operand(&mut emit, "Filters", w, [&rows, &Axes { dims: vec![k], strides: vec![1] }, &groups])?;
    let tiles = own.div_ceil(TILE).saturating_mul(columns.div_ceil(TILE)).saturating_mul(op.groups);
    let text = concat!(
        include_str!("tf32.cuh"),
        include_str!("tile_sums.cuh"),
        include_str!("product_tile.cuh"),
        include_str!("sliding.cuh"),
        include_str!("conv.cu")
    );
    Ok(vec![emit.kernel("conv", text, [tiles, 1, 1], 256)?.alone()])
}
