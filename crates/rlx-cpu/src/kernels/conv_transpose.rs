//! conv_transpose y[n, o, p stride + t dilation - pad] += x[n, c, p] w[c, o, t], then bias[o]
//! shapes      x f32|f16|bf16[n, Cin, ..]   w, bias of x's type, [Cin, Cout / groups, k..], [Cout]   y [n, Cout, ..]
//! operations  n places Cout k / strides multiply-adds, k = (Cin / groups) taps: none with the zeros that a
//!             convolution of a spread image would read
//! bytes       x once for each tap, from cache; w once to f32 rows of each phase, then as conv; y once
//! shares      filters of each image
//! numerics    f32 sums in order of channels, then taps; bias last
//!
//! Places of y whose distance is a multiple of the stride, a phase, see the same taps, and their elements of x are
//! neighbours: each phase is a convolution of stride 1 with those taps.

use super::convert::{self, FLOATS};
use super::patches::{self, Axes, Axis, Filters, TILE};
use super::product::grown;
use super::{Kernel, Planned, claim, conv, sizes};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use core::ops::Range;
use rlx_core::ir::lir::Step;
use rlx_core::ops::ConvTranspose;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// Phases of an axis, of each of which a program keeps its taps.
const PHASES: u64 = 1024;

/// Places of an axis that see the same taps.
struct Phase {
    /// The first, and how far the next is.
    first: usize,
    apart: usize,
    /// The taps.
    which: Vec<usize>,
    axis: Axis,
}

struct Transposed {
    dtype: DType,
    phases: [Vec<Phase>; 3],
    /// Places along each axis, and taps.
    outputs: [usize; 3],
    kernel: [usize; 3],
    groups: usize,
    /// Channels and filters of a group.
    channels: usize,
    filters: usize,
    bias: bool,
}

pub(super) fn takes(op: &ConvTranspose, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ConvTranspose { window, extra: _, groups: _, bias: _ } = op;
    claim::all_of(operands, FLOATS)?;
    if window.stride.iter().any(|n| *n > PHASES) {
        return Err(format!("its kernel takes strides of at most {PHASES}"));
    }
    conv::listed(operands)
}

pub(super) fn plan(op: &ConvTranspose, step: &Step) -> rlx_core::Result<Planned> {
    let (x, w, y) =
        (sizes(&step.operands[0])?, sizes(&step.operands[1])?, sizes(&step.results[0])?);
    let skip = 3usize.saturating_sub(x.len() - 2);
    let three = |dims: &[usize]| {
        let mut out = [1; 3];
        out.iter_mut().skip(skip).zip(dims).for_each(|(o, n)| *o = *n);
        out
    };
    let of = |list: &[u64], i: usize, otherwise: u64| {
        i.checked_sub(skip).and_then(|i| list.get(i)).copied().unwrap_or(otherwise) as i64
    };
    let (input, kernel, outputs) = (three(&x[2..]), three(&w[2..]), three(&y[2..]));
    let phases = core::array::from_fn(|i| {
        let window = &op.window;
        let numbers =
            [of(&window.stride, i, 1), of(&window.dilation, i, 1), of(&window.pad_low, i, 0)];
        phases(input[i], kernel[i], outputs[i], numbers)
    });
    let groups = op.groups as usize;
    let places = outputs.iter().product::<usize>();
    let strides = op.window.stride.iter().product::<u64>().max(1) as usize;
    let depth = (x[1] / groups.max(1)) * kernel.iter().product::<usize>();
    let kernel = Transposed {
        dtype: step.results[0].ty.dtype,
        phases,
        outputs,
        kernel,
        groups,
        channels: x[1] / groups.max(1),
        filters: w[1],
        bias: op.bias,
    };
    let rows = y[0] * y[1];
    Ok(Planned::new(kernel, &[Split::Runs(rows)], rows * places * (depth / strides).max(1)))
}

/// The phases of an axis, those without a tap too: their places are the bias.
fn phases(
    input: usize,
    kernel: usize,
    outputs: usize,
    [stride, dilation, low]: [i64; 3],
) -> Vec<Phase> {
    let apart = stride as usize;
    let phase = |first: usize| {
        let at = |tap: usize| first as i64 + low - tap as i64 * dilation;
        let which: Vec<usize> = (0..kernel).filter(|&t| at(t).rem_euclid(stride) == 0).collect();
        let taps = which.iter().map(|&t| at(t).div_euclid(stride)).collect();
        let axis = Axis { input, outputs: (outputs - first).div_ceil(apart), step: 1, taps };
        Phase { first, apart, which, axis }
    };
    (0..apart.min(outputs)).map(phase).collect()
}

/// Memory of a worker.
#[derive(Default)]
struct Scratch {
    patches: patches::Scratch,
    w: Vec<f32>,
    rows: Vec<f32>,
    bias: Vec<f32>,
    y: Vec<f32>,
    halves: Vec<u16>,
    places: Vec<usize>,
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Transposed {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|scratch| {
            let rows = cx.result(0).rows.clone();
            let mut row = rows.start;
            // The filters of one group of one image at a time.
            while row < rows.end {
                let end = rows.end.min((row / self.filters + 1) * self.filters);
                for a in &self.phases[0] {
                    for b in &self.phases[1] {
                        for c in &self.phases[2] {
                            self.phase(cx, scratch, [a, b, c], row..end);
                        }
                    }
                }
                row = end;
            }
        });
    }
}

impl Transposed {
    /// Filters of a phase as rows: `[filter][channel][tap]`.
    fn rows(&self, phases: [&Phase; 3], w: &[f32], filters: Range<usize>, rows: &mut [f32]) {
        let [_, height, width] = self.kernel;
        let taps = self.kernel.iter().product::<usize>();
        let mut rows = rows.iter_mut();
        for o in filters {
            for c in 0..self.channels {
                let w = &w[(c * self.filters + o) * taps..][..taps];
                for a in &phases[0].which {
                    for b in &phases[1].which {
                        let w = &w[(a * height + b) * width..];
                        for (c, to) in phases[2].which.iter().zip(rows.by_ref()) {
                            *to = w[*c];
                        }
                    }
                }
            }
        }
    }

    /// Places of one phase, of rows of results that are filters of one group of one image.
    fn phase(
        &self,
        cx: &mut Cx<'_>,
        scratch: &mut Scratch,
        phases: [&Phase; 3],
        rows: Range<usize>,
    ) {
        let (level, dtype, size) = (cx.level, self.dtype, self.dtype.block_bytes());
        let Scratch { patches, w, rows: room, bias, y, halves, places } = scratch;
        let (m, all) = (rows.len(), self.groups * self.filters);
        let axes: Axes = phases.map(|p| p.axis.clone());
        let first = rows.start % self.filters;
        let group = rows.start % all / self.filters;
        let bytes = self.channels * self.filters * self.kernel.iter().product::<usize>() * size;
        let w = convert::floats(level, dtype, &cx.bytes(1)[group * bytes..][..bytes], w);
        let room = grown(room, m * self.channels * patches::taps(&axes));
        self.rows(phases, w, first..first + m, room);
        let filters = Filters { rows: room, m };
        let bytes = self.channels * patches::elements(&axes) * size;
        let planes = &cx.bytes(0)[rows.start / self.filters * bytes..][..bytes];
        let bias: &[f32] = match self.bias {
            true => &convert::floats(level, dtype, cx.bytes(2), bias)[rows.start % all..],
            false => &[],
        };
        let positions = patches::positions(&axes);
        for start in (0..positions).step_by(TILE) {
            let tile = start..(start + TILE).min(positions);
            self.places(phases, tile.clone(), places);
            patches.aim(&axes, tile.clone());
            // Where no tap reaches the places there are no sums.
            let mut sums = patches.multiply(level, dtype, planes, &axes, self.channels, filters);
            for (i, row) in rows.clone().enumerate() {
                let bias = bias.get(i).copied().unwrap_or(0.0);
                let line = grown(y, TILE);
                line.fill(bias);
                if let Some(sums) = sums.next() {
                    line.iter_mut().zip(sums).for_each(|(y, sum)| *y += sum);
                }
                let line = &line[..tile.len()];
                if dtype == DType::F32 {
                    spread(line, places, cx.result(0).row(row));
                    continue;
                }
                halves.resize(TILE, 0);
                let halves = &mut halves[..line.len()];
                convert::write(level, dtype, line, bytemuck::cast_slice_mut(halves));
                spread(halves, places, cx.result(0).row(row));
            }
        }
    }

    /// Where positions of a phase stand in a row of results.
    fn places(&self, phases: [&Phase; 3], tile: Range<usize>, places: &mut Vec<usize>) {
        let [_, b, c] = phases;
        places.clear();
        places.extend(tile.map(|p| {
            let row = p / c.axis.outputs;
            let at = [row / b.axis.outputs, row % b.axis.outputs, p % c.axis.outputs];
            let [z, y, x] = core::array::from_fn(|i| phases[i].first + at[i] * phases[i].apart);
            (z * self.outputs[1] + y) * self.outputs[2] + x
        }));
    }
}

/// Elements to their places.
fn spread<T: Copy>(line: &[T], places: &[usize], row: &mut [T]) {
    line.iter().zip(places).for_each(|(x, at)| row[*at] = *x);
}
