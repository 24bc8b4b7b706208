//! `conv` by the card's library: the elements of x under the taps of a place become a row of halves, as those of a
//! matmul's x do (library.rs), and filters are multiplied by all of them.
//!
//! `F` filters of `K` taps at `C` places take `2 F K C` operations, three times those for f32, and `8 K C` bytes of
//! rows that are written and read again (f32). In tiles of shared memory nothing is written, at a tenth of the
//! library's speed: so rows pay from some 64 filters on. They are made for so many places at a time as CHUNK bytes
//! hold.

use super::library::{Halves, Scratch, is_aligned};
use super::numbers::Numbers;
use super::product::describe_type;
use super::sliding::sliding;
use super::tensor_axes::{Sizes as Given, product};
use super::{Argument, Context, Emit, Kernel, Product, Work, mismatch, word};
use crate::driver::Floats;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::types::DType;

/// The fewest filters, products of a result and places that are worth rows.
const FILTERS: u64 = 64;
const DEPTH: u64 = 64;
const PLACES: u64 = 1024;
/// Bytes of rows at a time.
const CHUNK: u64 = 256 << 20;
/// Parts of an image whose largest numbers are found apart.
const PARTS: u64 = 64;

/// Sizes of a convolution.
struct Sizes {
    images: u64,
    filters: u64,
    k: u64,
    taps: u64,
    channels: u64,
    plane: u64,
    places: u64,
}

/// The work of a convolution by the library; `None` where its own kernel is better, or the library has no such product.
pub(super) fn conv(step: &Step, cx: &Context<'_>) -> Result<Option<Vec<Work>>> {
    let Op::Conv(op) = &step.op else { return Ok(None) };
    let [x, w, bias @ ..] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let (input, kernel) = (x.ty.shape.static_dims()?, w.ty.shape.static_dims()?);
    let output = y.ty.shape.static_dims()?;
    let taps = product(&kernel[2..])?;
    let of = Sizes {
        images: input[0],
        filters: kernel[0],
        k: product(&[kernel[1], taps])?,
        taps,
        channels: input[1],
        plane: product(&input[2..])?,
        places: product(&output[2..])?,
    };
    let columns = product(&[of.images, of.places])?;
    if !cx.card.multiplies(Floats::Sums)
        || op.groups != 1
        || of.filters < FILTERS
        || of.k < DEPTH
        || columns < PLACES
        || !of.k.is_multiple_of(8)
        || of.images >= 1 << 16
        || !is_aligned(w, step, cx)?
    {
        return Ok(None);
    }
    // Kernels add to all of these.
    for n in [columns, of.k, product(&[of.channels, of.plane])?] {
        word(n.saturating_mul(2))?;
    }
    let (mut work, mut scratch) = (Vec::new(), Scratch::default());
    let filters = Halves::of(w, None, step, cx, &mut scratch, &mut work)?;
    let emit = |dtype: DType| {
        let mut emit = Emit::new(cx.plan, None);
        describe_type(&mut emit, dtype)?;
        Ok::<Emit<'_>, rlx_core::Error>(emit)
    };
    let (from, dtype) = (cx.emit(step).place(x)?, x.ty.dtype);
    let (most, scales) = (scratch.take(4 * of.images * PARTS), scratch.take(4 * of.images));
    let mut own = emit(dtype)?;
    own.arguments.extend([from, most]);
    own.size("COUNT", of.channels * of.plane)?;
    own.size("PARTS", PARTS)?;
    work.push(Work::Kernel(own.kernel(
        "largest",
        include_str!("largest.cu"),
        [PARTS, of.images, 1],
        256,
    )?));
    let mut own = Emit::new(cx.plan, None);
    own.arguments.extend([most, scales]);
    own.size("IMAGES", of.images)?;
    own.size("PARTS", PARTS)?;
    let blocks = [of.images.div_ceil(128), 1, 1];
    work.push(Work::Kernel(own.kernel(
        "image_scales",
        include_str!("image_scales.cu"),
        blocks,
        128,
    )?));
    let parts = if dtype == DType::F32 { 2 } else { 1 };
    let chunk = (CHUNK / (2 * parts * of.k)).max(64) / 64 * 64;
    let chunk = chunk.min(columns.next_multiple_of(64));
    let rows = scratch.take(2 * parts * chunk * of.k);
    let low_rows =
        (parts == 2).then_some(Argument { offset: rows.offset + 2 * chunk * of.k, ..rows });
    let filter_parts = if filters.low.is_some() { 2 } else { 1 };
    let sums = scratch.take(4 * filter_parts * of.filters * chunk);
    let lows = low_rows.map(|_| scratch.take(4 * of.filters * chunk));
    for first in (0..columns).step_by(chunk as usize) {
        let mut own = emit(dtype)?;
        own.arguments.extend([from, scales, rows]);
        work.push(Work::Kernel(columns_of(own, step, &of, [parts, chunk, columns, first])?));
        let mut multiply = |x: Argument, parts: u64, w: Argument, y: Argument| {
            let (rows, columns, k) = (word(parts * of.filters)?, word(chunk)?, word(of.k)?);
            let (floats, bias, residual, per_token) = (Floats::Sums, None, None, None);
            let of = Product { x, w, y, rows, columns, k, floats, bias, residual, per_token };
            work.push(Work::Product(of));
            Ok::<(), rlx_core::Error>(())
        };
        // Second halves of filters stand behind the first ones.
        multiply(filters.high, filter_parts, rows, sums)?;
        if let (Some(w), Some(y)) = (low_rows, lows) {
            multiply(filters.high, 1, w, y)?;
        }
        let mut own = emit(y.ty.dtype)?;
        own.arguments.push(sums);
        let mut parameters = String::new();
        let given = [
            (lows, "LOWS", "const float* __restrict__ lows"),
            (filters.scales, "SCALES_OF_W", "const float* __restrict__ of_w"),
        ];
        for (at, name, parameter) in given {
            if let Some(at) = at {
                own.arguments.push(at);
                own.define(name, "");
                parameters += &format!(", {parameter}");
            }
        }
        own.arguments.push(scales);
        if let Some(bias) = bias.first() {
            own.argument(bias)?;
            own.define("BIAS", "");
            parameters += ", const float* __restrict__ scales, const T* __restrict__ bias";
        } else {
            parameters += ", const float* __restrict__ scales";
        }
        own.argument(y)?;
        own.define("PARAMETERS", parameters);
        own.define("FILTER_PARTS", filter_parts);
        own.size("FILTERS", of.filters)?;
        own.size("PLACES", of.places)?;
        own.size("CHUNK", chunk)?;
        own.size("COLUMNS", columns)?;
        let mut numbers = Numbers::default();
        let name = numbers.size(first)?;
        own.define("FIRST", name);
        own.numbers(&numbers);
        let blocks = [product(&[of.filters, chunk.min(columns - first).div_ceil(256)])?, 1, 1];
        let text = include_str!("conv_finish.cu");
        own.size("BLOCKS", chunk.min(columns - first).div_ceil(256))?;
        work.push(Work::Kernel(own.kernel("conv_finish", text, blocks, 256)?));
    }
    Ok(Some(work))
}

/// The kernel that makes rows of halves from place `first` on.
fn columns_of(
    mut emit: Emit<'_>,
    step: &Step,
    of: &Sizes,
    [parts, chunk, columns, first]: [u64; 4],
) -> Result<Kernel> {
    let Op::Conv(op) = &step.op else { return Err(mismatch(step)) };
    let (input, kernel) =
        (step.operands[0].ty.shape.static_dims()?, step.operands[1].ty.shape.static_dims()?);
    let output = step.results[0].ty.shape.static_dims()?;
    emit.define("PARTS", parts);
    emit.size("K", of.k)?;
    emit.size("TAPS", of.taps)?;
    emit.size("CHANNELS", of.channels)?;
    emit.size("PLANE", of.plane)?;
    emit.size("PLACES", of.places)?;
    emit.size("CHUNK", chunk)?;
    emit.size("COLUMNS", columns)?;
    let (image, places) = (&input[2..], &output[2..]);
    sliding(&mut emit, &op.window, &kernel[2..], image, places, &mut Given::InText)?;
    let mut numbers = Numbers::default();
    let name = numbers.size(first)?;
    emit.define("FIRST", name);
    emit.numbers(&numbers);
    let grid = [chunk / 64, of.k.div_ceil(64), 1];
    let text = concat!(include_str!("sliding.cuh"), include_str!("columns.cu"));
    emit.kernel("columns", text, grid, 256)
}
