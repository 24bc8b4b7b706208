//! `pad`, `roll` and `im2col`: where an element comes from is a function of its index on each axis.

use super::emit::Emit;
use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::units::unit;
use super::walk::{dims, indices, row_major};
use super::{Context, Kernel, mismatch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Im2Col, Op, Pad, PadMode, Roll};
use rlx_core::target::Target;
use rlx_core::types::{DType, Scalar, Type};

/// A tensor of any scalar type, as the operators' rules allow.
pub(super) fn takes(op: &Op, _: &[&Type], _: &Target) -> Taken {
    let window = ["kernel", "stride", "pad_low", "pad_high", "dilation"];
    takes::knows(op, &[&["low", "high", "mode", "value", "shifts", "axes"], &window[..]].concat())
}

pub(super) fn pad(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Pad(Pad { low, mode, .. }) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let (of, to) = (dims(x)?, dims(y)?);
    let (mut numbers, strides) = (Numbers::default(), row_major(&of));
    let count = numbers.size(elements(&to)?)?;
    let mut text = indices(&to, "c", "i", &mut numbers)?;
    for (axis, (&n, &stride)) in of.iter().zip(&strides).enumerate() {
        let (c, stride) = (format!("c{axis}"), numbers.signed(stride)?);
        if to[axis] == n {
            text += &format!("at += {c} * {stride}; ");
            continue;
        }
        let (size, low) = (numbers.size(n)?, numbers.size(low[axis])?);
        // What is before the first element is a negative number, modulo 2^32.
        let [below, above] = match mode {
            PadMode::Constant(_) => ["{ is_inside = false; {c} = 0u; }"; 2],
            PadMode::Reflect => ["{c} = 0u - {c};", "{c} = 2u * {size} - 2u - {c};"],
            PadMode::Replicate => ["{c} = 0u;", "{c} = {size} - 1u;"],
            PadMode::Circular => ["{c} += {size};", "{c} -= {size};"],
        };
        let [below, above] = [below, above].map(|t| t.replace("{c}", &c).replace("{size}", &size));
        text += &format!(
            "bool is_below{axis} = {c} < {low}; {c} -= {low}; \
             if (is_below{axis}) {below} else if ({c} >= {size}) {above} "
        );
        text += &format!("at += {c} * {stride}; ");
    }
    let fill = match mode {
        PadMode::Constant(value) => bits(y.ty.dtype, *value)?,
        _ => 0,
    };
    launch((x, y), (count, text, fill), numbers, cx.emit(step))
}

pub(super) fn roll(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Roll(Roll { shifts, axes }) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let of = dims(x)?;
    let (mut numbers, strides) = (Numbers::default(), row_major(&of));
    let count = numbers.size(elements(&of)?)?;
    let mut text = indices(&of, "c", "i", &mut numbers)?;
    for (axis, (&n, &stride)) in of.iter().zip(&strides).enumerate() {
        let shift = axes.iter().zip(shifts).find(|(a, _)| **a == axis).map_or(0, |(_, s)| *s);
        // In i128, which holds every u64 and i64; the remainder is below n.
        let shift = i128::from(shift).rem_euclid(i128::from(n.max(1))) as u64;
        let c = format!("c{axis}");
        if shift > 0 {
            let (shift, rest) = (numbers.size(shift)?, numbers.size(n - shift)?);
            text += &format!("{c} = {c} < {shift} ? {c} + {rest} : {c} - {shift}; ");
        }
        text += &format!("at += {c} * {}; ", numbers.signed(stride)?);
    }
    launch((x, y), (count, text, 0), numbers, cx.emit(step))
}

pub(super) fn im2col(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Im2Col(Im2Col { kernel, window }) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let of = dims(x)?;
    let ([batch, channels, spatial @ ..], strides) = (of.as_slice(), row_major(&of)) else {
        return Err(mismatch(step));
    };
    // y as [planes, taps .., positions ..].
    let mut to = vec![batch.saturating_mul(*channels)];
    to.extend(kernel);
    for (axis, &size) in spatial.iter().enumerate() {
        // The type rule has checked that the window fits.
        let reach = (kernel[axis].max(1) - 1) * window.dilation[axis] + 1;
        let room = size + window.pad_low[axis] + window.pad_high[axis];
        // A place in the padding is a number, too.
        word(room)?;
        to.push((room.max(reach) - reach) / window.stride[axis] + 1);
    }
    let mut numbers = Numbers::default();
    let count = numbers.size(elements(&to)?)?;
    let mut text = indices(&to, "c", "i", &mut numbers)?;
    let plane = spatial.iter().fold(1u64, |n, d| n.saturating_mul(*d));
    text += &format!("at = c0 * {}; ", numbers.size(plane)?);
    for (axis, &size) in spatial.iter().enumerate() {
        let (tap, place) = (1 + axis, 1 + kernel.len() + axis);
        let (stride, dilation) =
            (numbers.size(window.stride[axis])?, numbers.size(window.dilation[axis])?);
        // A place before the image is a large number.
        let low = numbers.size(window.pad_low[axis])?;
        text += &format!(
            "u32 p{axis} = c{place} * {stride} + c{tap} * {dilation} - {low}; \
             is_inside = is_inside && p{axis} < {}; at += p{axis} * {}; ",
            numbers.size(size)?,
            numbers.signed(strides[2 + axis])?
        );
    }
    launch((x, y), (count, text, 0), numbers, cx.emit(step))
}

fn elements(dims: &[u64]) -> Result<u64> {
    let n = dims.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
    n.ok_or_else(|| unsupported(format!("{dims:?} elements")))
}

/// The bits of a number in a type: rounded, or cut off and saturated. Those of f16 are its f32's.
fn bits(dtype: DType, x: f32) -> Result<u64> {
    let DType::Scalar(scalar) = dtype else { return Err(unsupported(format!("pads of {dtype}"))) };
    Ok(match scalar {
        Scalar::F64 => f64::from(x).to_bits(),
        Scalar::F32 | Scalar::C64 | Scalar::F16 => x.to_bits().into(),
        Scalar::Bf16 => bf16_bits(x).into(),
        Scalar::I64 => x as i64 as u64,
        Scalar::I32 => (x as i32 as u32).into(),
        Scalar::I16 => (x as i16 as u16).into(),
        Scalar::I8 => (x as i8 as u8).into(),
        Scalar::U32 => (x as u32).into(),
        Scalar::U8 => (x as u8).into(),
        Scalar::Bool => u64::from(x != 0.0),
    })
}

/// The nearest, ties to even; a NaN stays one.
fn bf16_bits(x: f32) -> u32 {
    let bits = x.to_bits();
    if x.is_nan() { bits >> 16 | 0x40 } else { (bits + 0x7fff + (bits >> 16 & 1)) >> 16 }
}

/// The kernel: the name of its count, statements that make `at` and `is_inside`, and the bits of what is outside.
fn launch(
    (x, y): (&Slice, &Slice),
    (count, text, fill): (String, String, u64),
    mut numbers: Numbers,
    mut emit: Emit<'_>,
) -> Result<Vec<Kernel>> {
    let n = y.ty.shape.elements()?;
    if n == 0 {
        return Ok(Vec::new());
    }
    word(x.ty.shape.elements()?)?;
    let bytes = y.ty.dtype.block_bytes() as u64;
    let mut outside = format!("UNIT({})", numbers.bits(fill as u32));
    if y.ty.dtype == DType::F16 {
        outside = format!("half_of_float(__uint_as_float({}))", numbers.bits(fill as u32));
    }
    if bytes == 8 {
        outside = format!("UNIT(u64({}) << 32 | {outside})", numbers.bits((fill >> 32) as u32));
    }
    emit.argument(x)?;
    emit.argument(y)?;
    emit.define("UNIT", unit(bytes));
    emit.define("COUNT", count);
    emit.define("PLACE", text);
    emit.define("OUTSIDE", outside);
    emit.numbers(&numbers);
    Ok(vec![emit.kernel("axes", include_str!("axes.cu"), [n.div_ceil(256), 1, 1], 256)?])
}
