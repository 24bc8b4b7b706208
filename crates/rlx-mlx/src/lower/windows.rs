//! Windows of images: their columns, their largest or mean, and images of another size.

use super::elementwise::narrowed;
use super::takes::{Taken, are_floats, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{Interpolation, Op, PoolKind, Window};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Places under a kernel at most: each is a slice.
const TAPS: u64 = 1 << 10;

/// Neighbours of a place at most: each is a product.
const NEIGHBOURS: usize = 1 << 8;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let known =
        ["kernel", "window", "stride", "pad_low", "pad_high", "dilation", "kind", "count_padding"];
    knows(op, &known)?;
    let kernel = match op {
        Op::Pool(op) => {
            are_floats(operands)?;
            &op.kernel
        }
        // It only moves elements: f64 too, which fails on a GPU that has none.
        Op::Im2Col(op) => &op.kernel,
        _ => return Err("it has no kernel".into()),
    };
    let taps = kernel.iter().try_fold(1u64, |n, &k| n.checked_mul(k));
    if taps.is_none_or(|n| n > TAPS) {
        return Err(format!("its kernel takes {TAPS} places of a window"));
    }
    Ok(())
}

pub(super) fn takes_interpolate(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["size", "mode", "align_corners", "antialias"])?;
    are_floats(operands)?;
    let (Op::Interpolate(op), [x]) = (op, operands) else { return Err("no interpolate".into()) };
    for (&size, input) in op.size.iter().zip(x.shape.0.iter().skip(2)) {
        let Some(input) = input.as_static().filter(|&n| n < 1 << 31 && size < 1 << 24) else {
            return Err("its sizes are not known, or large".into());
        };
        // A kernel that widens has as many neighbours as it shrinks by, and four times that.
        let wide = op.antialias && input.div_ceil(size.max(1)) > NEIGHBOURS as u64 / 4 - 1;
        if wide {
            return Err(format!("its kernel takes {NEIGHBOURS} neighbours"));
        }
    }
    Ok(())
}

/// Slices of x, one for each place under the kernel, each as large as the result; `fill` in the padding.
fn taps(
    t: &mut Tape,
    x: Reg,
    [dims, out]: [&[i64]; 2],
    (kernel, window): (&[u64], &Window),
    (kind, fill): (Kind, f32),
) -> Vec<Reg> {
    let rank = dims.len();
    let ends = |list: &[u64]| -> Vec<i64> {
        [0, 0].into_iter().chain(list.iter().map(|&n| n as i64)).collect()
    };
    let (low, high) = (ends(&window.pad_low), ends(&window.pad_high));
    let mut padded = x;
    if low.iter().chain(&high).any(|&n| n > 0) {
        let value = t.number(kind, fill.into());
        let ints = [&[rank as i64], low.as_slice(), &high].concat();
        padded = t.with(Code::Pad, &[x, value], &ints);
    }
    let mut places = vec![Vec::new()];
    for &k in kernel {
        places = places
            .iter()
            .flat_map(|p: &Vec<i64>| (0..k as i64).map(move |i| [p.as_slice(), &[i]].concat()))
            .collect();
    }
    let slice = |place: Vec<i64>| {
        let (mut starts, mut stops) = (vec![0; rank], dims.to_vec());
        let mut steps = vec![1; rank];
        for (i, tap) in place.iter().enumerate() {
            let (stride, dilation) = (window.stride[i] as i64, window.dilation[i] as i64);
            starts[2 + i] = tap * dilation;
            stops[2 + i] = tap * dilation + (out[2 + i] - 1) * stride + 1;
            steps[2 + i] = stride;
        }
        let ints = [&[rank as i64], starts.as_slice(), &stops, &steps].concat();
        t.with(Code::Slice, &[padded], &ints)
    };
    places.into_iter().map(slice).collect()
}

pub(super) fn im2col(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Im2Col(op) = c.op else { return Err(refused("no im2col".into())) };
    let (x, kind, dims, result) = (c.x(0)?, c.kind(0)?, c.dims(0)?, c.out_dims(0)?);
    if result.contains(&0) {
        let zero = c.t.number(kind, 0.0);
        return Ok(vec![c.t.broadcast(zero, &result)]);
    }
    // Positions of the window along each axis, which the type rule has found to be one or more.
    let w = &op.window;
    let mut out = dims[..2].to_vec();
    out.extend((0..op.kernel.len()).map(|i| {
        let reach = (op.kernel[i] as i64 - 1) * w.dilation[i] as i64 + 1;
        let room = dims[2 + i] + w.pad_low[i] as i64 + w.pad_high[i] as i64 - reach;
        room / w.stride[i] as i64 + 1
    }));
    let all = taps(c.t, x, [&dims, &out], (&op.kernel, &op.window), (kind, 0.0));
    let places: i64 = out[2..].iter().product();
    let columns: Vec<Reg> =
        all.into_iter().map(|tap| c.t.reshape(tap, &[dims[0], dims[1], 1, places])).collect();
    let y = c.t.concat(&columns, 2);
    Ok(vec![c.t.reshape(y, &result)])
}

pub(super) fn pool(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Pool(op) = c.op else { return Err(refused("no pool".into())) };
    let (x, kind, dims, out) = (c.cast(0, Kind::F32)?, c.kind(0)?, c.dims(0)?, c.out_dims(0)?);
    if out.contains(&0) {
        let zero = c.t.number(kind, 0.0);
        return Ok(vec![c.t.broadcast(zero, &out)]);
    }
    let window = (op.kernel.as_slice(), &op.window);
    let t = &mut *c.t;
    let y = match op.kind {
        PoolKind::Max => {
            let nan = t.is_nan(x);
            let least = t.float(f32::NEG_INFINITY);
            // The largest is a number where there is one.
            let x = t.select(nan, least, x);
            let all = taps(t, x, [&dims, &out], window, (Kind::F32, f32::NEG_INFINITY));
            all.into_iter().reduce(|a, b| t.maximum(a, b))
        }
        PoolKind::Average => {
            let sum = |t: &mut Tape, all: Vec<Reg>| all.into_iter().reduce(|a, b| t.add(a, b));
            let all = taps(t, x, [&dims, &out], window, (Kind::F32, 0.0));
            let total = sum(t, all);
            let by = if op.count_padding {
                Some(t.float(op.kernel.iter().product::<u64>() as f32))
            } else {
                // Elements that are there.
                let one = t.float(1.0);
                let mut own = dims.clone();
                own[..2].fill(1);
                let ones = t.broadcast(one, &own);
                let mut to = out.clone();
                to[..2].fill(1);
                let all = taps(t, ones, [&own, &to], window, (Kind::F32, 0.0));
                sum(t, all).map(|n| t.maximum(n, one))
            };
            total.zip(by).map(|(total, by)| t.div(total, by))
        }
    };
    let y = y.ok_or_else(|| refused("a window of nothing".into()))?;
    Ok(vec![narrowed(t, y, kind)])
}

/// f32 in a row, by their bits.
fn numbers(t: &mut Tape, all: impl Iterator<Item = f32>) -> Reg {
    let bits: Vec<i64> = all.map(|x| x.to_bits().into()).collect();
    let bits = t.integers(Kind::U32, &bits);
    t.bits(bits, Kind::F32)
}

pub(super) fn interpolate(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Interpolate(op) = c.op else { return Err(refused("no interpolate".into())) };
    let (mut y, kind, dims, out) = (c.cast(0, Kind::F32)?, c.kind(0)?, c.dims(0)?, c.out_dims(0)?);
    if out.contains(&0) {
        let zero = c.t.number(kind, 0.0);
        return Ok(vec![c.t.broadcast(zero, &out)]);
    }
    for (i, &size) in op.size.iter().enumerate() {
        let (axis, input) = (2 + i, dims[2 + i]);
        let all = op.taps(input as u64, size);
        let t = &mut *c.t;
        if op.mode == Interpolation::Nearest {
            let at: Vec<i64> = all.iter().map(|tap| tap.0 as i64).collect();
            let at = t.integers(Kind::I32, &at);
            y = t.take(y, at, axis);
            continue;
        }
        let most = all.iter().map(|tap| tap.1.len()).max().unwrap_or(0);
        let mut own = vec![1; dims.len()];
        own[axis] = size as i64;
        let from = y;
        let mut sum = None;
        for k in 0..most {
            // A place with fewer neighbours has its first one again, times 0.
            let at: Vec<i64> = all
                .iter()
                .map(|(first, w)| (first + if k < w.len() { k } else { 0 }) as i64)
                .collect();
            let at = t.integers(Kind::I32, &at);
            let weights = numbers(t, all.iter().map(|tap| tap.1.get(k).map_or(0.0, |w| *w as f32)));
            let weights = t.reshape(weights, &own);
            let taken = t.take(from, at, axis);
            let part = t.mul(taken, weights);
            sum = Some(match sum {
                Some(sum) => t.add(sum, part),
                None => part,
            });
        }
        y = sum.ok_or_else(|| refused("an axis of nothing".into()))?;
    }
    Ok(vec![narrowed(c.t, y, kind)])
}
