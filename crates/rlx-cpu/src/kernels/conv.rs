//! conv        y[n, o, p] = bias[o] + sum_(c, t) x[n, c, p stride + t dilation - pad] w[o, c, t], c in o's group
//! shapes      x f32|f16|bf16[n, Cin, ..]   w, bias of x's type, [Cout, Cin / groups, k..], [Cout]   y [n, Cout, ..]
//! operations  n places Cout k multiply-adds, k = (Cin / groups) taps; gathering writes n places k elements of f32
//!             to cache, one for each filter of a group that meets it
//! bytes       x once for each tap, from cache where a plane's rows fit it; w once for 128 places, from the second
//!             or third cache; y once
//! shares      columns of places if they are many, else rows: filters of each image
//! numerics    f32 sums in order of k, padding as zeros; bias last. Few filters: bias first, padding left out

use super::convert::{self, FLOATS};
use super::patches::{self, Axes, Filters, TILE};
use super::slide::{self, Slide};
use super::{Kernel, Planned, claim, sizes};
use crate::panel::ROWS;
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use core::ops::Range;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Conv;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// Taps of a window, of each of which a tile keeps where its elements stand.
const TAPS: u64 = 4096;
/// Places from which on shares are columns of them.
const MANY: usize = 8 * TILE;
/// Filters of a group that are too few to gather patches for.
const FEW: usize = 4;

struct Convolve {
    dtype: DType,
    axes: Axes,
    groups: usize,
    /// Channels and filters of a group.
    channels: usize,
    filters: usize,
    bias: bool,
}

pub(super) fn takes(op: &Conv, operands: &[&Type], _: &Target) -> Result<(), String> {
    let Conv { window: _, groups: _, bias: _ } = op;
    claim::all_of(operands, FLOATS)?;
    listed(operands)
}

/// Fails for a kernel, operand 1, with more taps than a tile has room for.
pub(super) fn listed(operands: &[&Type]) -> Result<(), String> {
    let kernel = operands.get(1).and_then(|w| w.shape.static_dims().ok()).unwrap_or_default();
    let taps = kernel.iter().skip(2).try_fold(1u64, |n, &k| n.checked_mul(k));
    match taps {
        Some(n) if n <= TAPS => Ok(()),
        _ => Err(format!("its kernel takes windows of at most {TAPS} elements")),
    }
}

pub(super) fn plan(op: &Conv, step: &Step) -> rlx_core::Result<Planned> {
    let (x, w, y) =
        (sizes(&step.operands[0])?, sizes(&step.operands[1])?, sizes(&step.results[0])?);
    let groups = op.groups as usize;
    let kernel = Convolve {
        dtype: step.results[0].ty.dtype,
        axes: patches::axes(&op.window, &x[2..], &w[2..], &y[2..]),
        groups,
        channels: w[1],
        filters: w[0] / groups.max(1),
        bias: op.bias,
    };
    let (rows, places) = (y[0] * y[1], patches::positions(&kernel.axes));
    let size = kernel.dtype.block_bytes();
    let split = if kernel.few() {
        slide::split(&kernel.axes, rows, size)
    } else if places >= MANY {
        Split::Grid(rows, ROWS * size)
    } else {
        Split::Runs(rows)
    };
    let work = rows * places * (w[1] * patches::taps(&kernel.axes)).max(1);
    Ok(Planned::new(kernel, &[split], work))
}

/// Memory of a worker.
#[derive(Default)]
struct Scratch {
    patches: patches::Scratch,
    slide: slide::Scratch,
    w: Vec<f32>,
    bias: Vec<f32>,
    y: Vec<f32>,
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Convolve {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|scratch| {
            let rows = cx.result(0).rows.clone();
            let mut row = rows.start;
            // The filters of one group of one image at a time.
            while row < rows.end {
                let end = rows.end.min((row / self.filters + 1) * self.filters);
                if self.few() {
                    (row..end).for_each(|row| self.slide(cx, scratch, row));
                } else {
                    self.group(cx, scratch, row..end);
                }
                row = end;
            }
        });
    }
}

impl Convolve {
    /// Whether a group has few filters: the window slides for each of them then.
    fn few(&self) -> bool {
        self.filters <= FEW
    }

    /// The planes of the channels that a row of results sees.
    fn planes<'a>(&self, cx: &Cx<'a>, row: usize) -> &'a [u8] {
        let bytes = self.channels * patches::elements(&self.axes) * self.dtype.block_bytes();
        &cx.bytes(0)[row / self.filters * bytes..][..bytes]
    }

    /// The filters of rows, of one group.
    fn weights<'a>(&self, cx: &Cx<'a>, rows: &Range<usize>, room: &'a mut Vec<f32>) -> &'a [f32] {
        let filter = self.channels * patches::taps(&self.axes) * self.dtype.block_bytes();
        let first = rows.start % (self.groups * self.filters);
        let bytes = &cx.bytes(1)[first * filter..][..rows.len() * filter];
        convert::floats(cx.level, self.dtype, bytes, room)
    }

    /// One row of results, of few filters.
    fn slide(&self, cx: &mut Cx<'_>, scratch: &mut Scratch, row: usize) {
        let Scratch { slide, w, bias, .. } = scratch;
        let w = self.weights(cx, &(row..row + 1), w);
        let planes = self.planes(cx, row);
        let start = match self.bias {
            true => convert::floats(cx.level, self.dtype, cx.bytes(2), bias)
                [row % (self.groups * self.filters)],
            false => 0.0,
        };
        let what = Slide { dtype: self.dtype, axes: &self.axes, planes };
        what.sums(cx, slide, row, w, start);
    }

    /// Rows of results that are filters of one group of one image.
    fn group(&self, cx: &mut Cx<'_>, scratch: &mut Scratch, rows: Range<usize>) {
        let (level, dtype, size) = (cx.level, self.dtype, self.dtype.block_bytes());
        let Scratch { patches, w, bias, y, .. } = scratch;
        let filters = Filters { rows: self.weights(cx, &rows, w), m: rows.len() };
        let planes = self.planes(cx, rows.start);
        let first = rows.start % (self.groups * self.filters);
        let bias: &[f32] = match self.bias {
            true => &convert::floats(level, dtype, cx.bytes(2), bias)[first..],
            false => &[],
        };
        let columns = cx.result(0).columns::<u8>();
        let places = columns.start / size..columns.end / size;
        for start in places.clone().step_by(TILE) {
            let tile = start..(start + TILE).min(places.end);
            patches.aim(&self.axes, tile.clone());
            let sums = patches.multiply(level, dtype, planes, &self.axes, self.channels, filters);
            for (i, (row, sums)) in rows.clone().zip(sums).enumerate() {
                let bias = bias.get(i).copied().unwrap_or(0.0);
                let line = super::product::grown(y, TILE);
                line.iter_mut().zip(sums).for_each(|(y, sum)| *y = sum + bias);
                let at = (tile.start - places.start) * size..(tile.end - places.start) * size;
                let to = &mut cx.result(0).row::<u8>(row)[at];
                convert::write(level, dtype, &line[..tile.len()], to);
            }
        }
    }
}
