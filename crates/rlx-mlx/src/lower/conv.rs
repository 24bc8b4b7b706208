//! Convolutions and their adjoints. MLX has channels last.

use super::elementwise::narrowed;
use super::takes::{Taken, are_floats, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{Op, Window};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let known = ["window", "stride", "pad_low", "pad_high", "dilation", "groups", "bias", "extra"];
    knows(op, &known)?;
    are_floats(operands)
}

/// The order of axes that has axis 1 last.
fn channels_last(rank: i64) -> Vec<i64> {
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

/// The order of axes that has the last one as axis 1.
fn channels_first(rank: i64) -> Vec<i64> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

fn sizes(all: &[u64]) -> Vec<i64> {
    all.iter().map(|&n| n as i64).collect()
}

/// How a convolution slides: strides, pads, and the dilations of kernel and input.
struct Slide {
    stride: Vec<i64>,
    low: Vec<i64>,
    high: Vec<i64>,
    dilation: Vec<i64>,
    spread: Vec<i64>,
    flip: bool,
}

/// A convolution of `x [N, .., C]` with `w [O, .., C / groups]`, sizes with channels last, one group after another: MLX
/// has groups of two spatial axes at most.
fn convolved(t: &mut Tape, [x, w]: [Reg; 2], dims: [&[i64]; 2], groups: i64, how: &Slide) -> Reg {
    let axes = how.stride.len();
    let last = axes + 1;
    let lists = [&how.stride, &how.low, &how.high, &how.dilation, &how.spread];
    let mut ints = vec![axes as i64, 1, i64::from(how.flip)];
    lists.iter().for_each(|list| ints.extend(list.iter()));
    if groups == 1 {
        return t.with(Code::Conv, &[x, w], &ints);
    }
    let (depth, own) = (dims[0][last] / groups, dims[1][0] / groups);
    let parts: Vec<Reg> = (0..groups)
        .map(|g| {
            let x = t.slice(x, dims[0], last, g * depth, (g + 1) * depth);
            let w = t.slice(w, dims[1], 0, g * own, (g + 1) * own);
            t.with(Code::Conv, &[x, w], &ints)
        })
        .collect();
    t.concat(&parts, last)
}

/// Adds a bias along the last axis, and has channels first again.
fn finished(c: &mut Call<'_>, y: Reg, bias: bool, kind: Kind, rank: i64) -> Result<Vec<Reg>> {
    let y = if bias {
        let bias = c.cast(2, Kind::F32)?;
        c.t.add(y, bias)
    } else {
        y
    };
    let y = c.t.transpose(y, &channels_first(rank));
    Ok(vec![narrowed(c.t, y, kind)])
}

/// What a convolution of nothing gives: its bias, or zeros.
fn of_nothing(c: &mut Call<'_>, bias: bool, kind: Kind) -> Result<Vec<Reg>> {
    let out = c.out_dims(0)?;
    let mut own = vec![1; out.len()];
    own[1] = out[1];
    let y = if bias {
        let bias = c.x(2)?;
        c.t.reshape(bias, &own)
    } else {
        c.t.number(kind, 0.0)
    };
    Ok(vec![c.t.broadcast(y, &out)])
}

pub(super) fn conv(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Conv(op) = c.op else { return Err(refused("no conv".into())) };
    let (kind, x_dims, w_dims) = (c.kind(0)?, c.dims(0)?, c.dims(1)?);
    let rank = x_dims.len() as i64;
    if x_dims.contains(&0) || w_dims.contains(&0) {
        return of_nothing(c, op.bias, kind);
    }
    let (x, w) = (c.cast(0, Kind::F32)?, c.cast(1, Kind::F32)?);
    let perm = channels_last(rank);
    let moved = |dims: &[i64]| -> Vec<i64> { perm.iter().map(|&i| dims[i as usize]).collect() };
    let (x, w) = (c.t.transpose(x, &perm), c.t.transpose(w, &perm));
    let Window { stride, pad_low, pad_high, dilation } = &op.window;
    let how = Slide {
        stride: sizes(stride),
        low: sizes(pad_low),
        high: sizes(pad_high),
        dilation: sizes(dilation),
        spread: vec![1; stride.len()],
        flip: false,
    };
    let dims = [moved(&x_dims), moved(&w_dims)];
    let y = convolved(c.t, [x, w], [&dims[0], &dims[1]], op.groups as i64, &how);
    finished(c, y, op.bias, kind, rank)
}

pub(super) fn conv_transpose(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::ConvTranspose(op) = c.op else { return Err(refused("no conv_transpose".into())) };
    let (kind, x_dims, w_dims) = (c.kind(0)?, c.dims(0)?, c.dims(1)?);
    let (rank, axes, groups) = (x_dims.len() as i64, op.window.stride.len(), op.groups as i64);
    if x_dims.contains(&0) || w_dims.contains(&0) {
        return of_nothing(c, op.bias, kind);
    }
    let (x, w) = (c.cast(0, Kind::F32)?, c.cast(1, Kind::F32)?);
    let perm = channels_last(rank);
    let x = c.t.transpose(x, &perm);
    let x_moved: Vec<i64> = perm.iter().map(|&i| x_dims[i as usize]).collect();
    // [groups, C / groups, O / groups, ..] to [groups, O / groups, .., C / groups], and groups and filters as one.
    let (depth, own) = (w_dims[0] / groups, w_dims[1]);
    let kernel = &w_dims[2..];
    let w = c.t.reshape(w, &[&[groups, depth, own], kernel].concat());
    let order: Vec<i64> = [0, 2].into_iter().chain(3..3 + axes as i64).chain([1]).collect();
    let w = c.t.transpose(w, &order);
    let w_moved = [&[groups * own], kernel, &[depth]].concat();
    let w = c.t.reshape(w, &w_moved);
    let reach = |i: usize| (kernel[i] - 1) * op.window.dilation[i] as i64;
    let edge =
        |pads: &[u64]| -> Vec<i64> { (0..axes).map(|i| reach(i) - pads[i] as i64).collect() };
    let (low, mut high) = (edge(&op.window.pad_low), edge(&op.window.pad_high));
    high.iter_mut().zip(&op.extra).for_each(|(high, extra)| *high += *extra as i64);
    // What is cut off is padding below 0; MLX pads alone.
    let cut = |list: &[i64]| -> Vec<i64> { list.iter().map(|n| (-n).max(0)).collect() };
    let pads = |list: &[i64]| -> Vec<i64> { list.iter().map(|n| (*n).max(0)).collect() };
    let how = Slide {
        stride: vec![1; axes],
        low: pads(&low),
        high: pads(&high),
        dilation: sizes(&op.window.dilation),
        spread: sizes(&op.window.stride),
        flip: true,
    };
    let mut y = convolved(c.t, [x, w], [&x_moved, &w_moved], groups, &how);
    let (cut_low, cut_high) = (cut(&low), cut(&high));
    let out = c.out_dims(0)?;
    let mut dims = vec![out[0]];
    dims.extend((0..axes).map(|i| out[2 + i] + cut_low[i] + cut_high[i]));
    dims.push(out[1]);
    for i in 0..axes {
        if cut_low[i] + cut_high[i] > 0 {
            y = c.t.slice(y, &dims, 1 + i, cut_low[i], cut_low[i] + out[2 + i]);
            dims[1 + i] = out[2 + i];
        }
    }
    finished(c, y, op.bias, kind, rank)
}
