//! `slice`, `concat`, `transpose`, `expand` and `reverse`: elements of a box, from places to places whose strides are
//! constant along every axis.

use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::transpose::tiles;
use super::units::{sizes, unit};
use super::walk::{Walk, repeated, row_major};
use super::{Context, Kernel, mismatch, word};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// A tensor or a state of any type, as the operators' rules allow.
pub(super) fn takes(op: &Op, _: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis", "start", "len", "step", "perm", "dims", "axes"])
}

/// A tensor's part in a copy: the element of the box's first index, and strides along its axes.
struct Side<'a> {
    slice: &'a Slice,
    first: i64,
    strides: Vec<i64>,
}

fn far() -> Error {
    Error::internal("a copy from nowhere")
}

/// The product of a size and a stride.
fn times(n: u64, stride: i64) -> Result<i64> {
    i64::try_from(n).ok().and_then(|n| n.checked_mul(stride)).ok_or_else(far)
}

pub(super) fn slice(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Slice(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let ((bytes, of), (_, to)) = (sizes(x)?, sizes(y)?);
    let mut strides = row_major(&of);
    let first = times(op.start.as_static().ok_or_else(far)?, strides[op.axis])?;
    strides[op.axis] = strides[op.axis].checked_mul(op.step).ok_or_else(far)?;
    copy(step, cx, bytes, &to, Side { slice: x, first, strides }, whole(y, &to))
}

pub(super) fn concat(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Concat(op) = &step.op else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let (bytes, to) = sizes(y)?;
    let strides = row_major(&to);
    let (mut first, mut launches) = (0, Vec::new());
    for x in &step.operands {
        let (_, of) = sizes(x)?;
        let side = Side { slice: y, first, strides: strides.clone() };
        launches.extend(copy(step, cx, bytes, &of, whole(x, &of), side)?);
        first += times(of[op.axis], strides[op.axis])?;
    }
    Ok(launches)
}

pub(super) fn transpose(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Transpose(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let ((bytes, of), (_, to)) = (sizes(x)?, sizes(y)?);
    let own = row_major(&of);
    let strides = op.perm.iter().map(|&axis| own[axis]).collect();
    copy(step, cx, bytes, &to, Side { slice: x, first: 0, strides }, whole(y, &to))
}

pub(super) fn expand(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let (x, y) = (&step.operands[0], &step.results[0]);
    let ((bytes, of), (_, to)) = (sizes(x)?, sizes(y)?);
    let strides = repeated(&of, &to);
    copy(step, cx, bytes, &to, Side { slice: x, first: 0, strides }, whole(y, &to))
}

pub(super) fn reverse(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Reverse(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let (bytes, of) = sizes(x)?;
    let (mut strides, mut first) = (row_major(&of), 0i64);
    for &axis in &op.axes {
        first = first.saturating_add(times(of[axis].saturating_sub(1), strides[axis])?);
        strides[axis] = -strides[axis];
    }
    copy(step, cx, bytes, &of, Side { slice: x, first, strides }, whole(y, &of))
}

/// All of a tensor of these sizes.
fn whole<'a>(slice: &'a Slice, sizes: &[u64]) -> Side<'a> {
    Side { slice, first: 0, strides: row_major(sizes) }
}

/// The launch that copies the box `dims` of elements of so many bytes.
fn copy(
    step: &Step,
    cx: &Context<'_>,
    bytes: u64,
    dims: &[u64],
    from: Side<'_>,
    to: Side<'_>,
) -> Result<Vec<Kernel>> {
    if dims.contains(&0) {
        return Ok(Vec::new());
    }
    let (mut emit, mut starts) = (cx.emit(step), Vec::new());
    let mut backs = Vec::new();
    for side in [&from, &to] {
        // Where indices along an axis run backwards, the argument is the lowest element, and the first stands behind.
        let mut back = 0;
        for (&n, &stride) in dims.iter().zip(&side.strides).filter(|(_, stride)| **stride < 0) {
            back += times(n - 1, -stride)?;
        }
        let lowest = u64::try_from(side.first - back).map_err(|_| far())?;
        let mut place = emit.place(side.slice)?;
        place.offset += lowest.checked_mul(bytes).ok_or_else(far)?;
        starts.extend([place.offset, back as u64 * bytes]);
        backs.push(back as u64);
        emit.arguments.push(place);
    }
    let mut walk = Walk::new(dims, &[from.strides, to.strides]);
    if let [0, 0] = backs[..]
        && let Some(kernel) = tiles(&walk, bytes, cx.emit(step), &emit.arguments)?
    {
        return Ok(vec![kernel]);
    }
    let wide = walk.widen(bytes, &starts);
    let n: u64 = walk.dims.iter().product();
    for strides in &walk.strides {
        let last = walk.dims.iter().zip(strides);
        let last = last.map(|(n, stride)| (n - 1).saturating_mul(stride.unsigned_abs()));
        word(last.fold(0, u64::saturating_add))?;
    }
    let mut numbers = Numbers::default();
    let count = numbers.size(n)?;
    let (text, at) = walk.text("c", "i", &mut numbers)?;
    let mut places = Vec::new();
    for (at, back) in at.into_iter().zip(backs) {
        places.push(match back {
            0 => at,
            back => format!("{} + {at}", numbers.size(back / (wide / bytes))?),
        });
    }
    emit.define("UNIT", unit(wide));
    emit.define("COUNT", count);
    emit.define("INDICES", text);
    emit.define("FROM", &places[0]);
    emit.define("TO", &places[1]);
    emit.numbers(&numbers);
    Ok(vec![emit.kernel("copy", include_str!("copy.cu"), [n.div_ceil(256), 1, 1], 256)?])
}
