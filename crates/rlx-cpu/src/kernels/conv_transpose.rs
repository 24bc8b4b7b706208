//! conv_transpose y[n, o, p stride + t dilation - pad] += x[n, c, p] w[c, o, t], then bias[o]
//! shapes      x f32|f16|bf16[n, Cin, ..]   w, bias of x's type, [Cin, Cout / groups, k..], [Cout]   y [n, Cout, ..]
//! operations  n places Cout k / strides multiply-adds, k = (Cin / groups) taps: none with the zeros that a
//!             convolution of a spread image would read
//! bytes       x once for each tap, from cache; w once to f32 rows of each phase, then as conv; y once
//! shares      columns of places if they are many, else filters of each image
//! numerics    f32 sums in order of channels, then taps; bias last
//!
//! Places of y whose distance is a multiple of the stride, a phase, see the same taps, and their elements of x are
//! neighbours: each phase is a convolution of stride 1 with those taps. Phases that see the same elements, as all
//! do where the stride is the kernel's size, are one convolution with the filters of each.

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
/// From so many places of a phase on, shares are columns of places. A share has at least the second number of them,
/// because each share orders the filters for itself.
const MANY: usize = 8 * TILE;
const OF_A_SHARE: usize = 2 * TILE;

/// Phases of an axis that see the same elements.
struct Phases {
    /// How far a phase's places are from each other.
    apart: usize,
    /// The first place of each phase, and its taps.
    each: Vec<(usize, Vec<usize>)>,
    axis: Axis,
}

struct Transposed {
    dtype: DType,
    phases: [Vec<Phases>; 3],
    /// Places along each axis, and taps.
    outputs: [usize; 3],
    kernel: [usize; 3],
    groups: usize,
    /// Channels and filters of a group.
    channels: usize,
    filters: usize,
    bias: bool,
    /// The first axis with several places, and how many elements of y a place of a phase is there.
    outermost: (usize, usize),
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
    let axis = outputs.iter().position(|n| *n > 1).unwrap_or(2);
    let apart = axis.checked_sub(skip).and_then(|i| op.window.stride.get(i)).copied();
    let apart = apart.unwrap_or(1).max(1) as usize;
    let outermost = (axis, apart * outputs[axis + 1..].iter().product::<usize>());
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
        outermost,
    };
    let rows = y[0] * y[1];
    let of_a_phase = places / strides;
    // Places of a phase along the outermost axis, and others for each of them.
    let lines = outputs[axis].div_ceil(apart);
    let of_a_line = (of_a_phase / lines.max(1)).max(1);
    let split = if of_a_phase >= MANY && lines > 1 {
        let size = kernel.dtype.block_bytes();
        Split::Grid(rows, OF_A_SHARE.div_ceil(of_a_line) * outermost.1 * size)
    } else {
        Split::Runs(rows)
    };
    Ok(Planned::new(kernel, &[split], rows * places * (depth / strides).max(1)))
}

/// The phases of an axis, those without a tap too: their places are the bias.
fn phases(
    input: usize,
    kernel: usize,
    outputs: usize,
    [stride, dilation, low]: [i64; 3],
) -> Vec<Phases> {
    let apart = stride as usize;
    let mut all: Vec<Phases> = Vec::new();
    for first in 0..apart.min(outputs) {
        let at = |tap: usize| first as i64 + low - tap as i64 * dilation;
        let which: Vec<usize> = (0..kernel).filter(|&t| at(t).rem_euclid(stride) == 0).collect();
        let taps = which.iter().map(|&t| at(t).div_euclid(stride)).collect();
        let axis = Axis { input, outputs: (outputs - first).div_ceil(apart), step: 1, taps };
        match all.last_mut() {
            Some(last) if last.axis == axis => last.each.push((first, which)),
            _ => all.push(Phases { apart, each: vec![(first, which)], axis }),
        }
    }
    all
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
                            self.phases(cx, scratch, [a, b, c], row..end);
                        }
                    }
                }
                row = end;
            }
        });
    }
}

impl Transposed {
    /// Filters of phases as rows: `[filter][phase][channel][tap]`.
    fn rows(&self, phases: [&Phases; 3], w: &[f32], filters: Range<usize>, rows: &mut [f32]) {
        let [_, height, width] = self.kernel;
        let taps = self.kernel.iter().product::<usize>();
        let mut rows = rows.iter_mut();
        for o in filters {
            for [(_, a), (_, b), (_, c)] in each(phases) {
                for channel in 0..self.channels {
                    let w = &w[(channel * self.filters + o) * taps..][..taps];
                    for a in a {
                        for b in b {
                            let w = &w[(a * height + b) * width..];
                            for (c, to) in c.iter().zip(rows.by_ref()) {
                                *to = w[*c];
                            }
                        }
                    }
                }
            }
        }
    }

    /// Places of some phases, of rows of results that are filters of one group of one image.
    fn phases(
        &self,
        cx: &mut Cx<'_>,
        scratch: &mut Scratch,
        phases: [&Phases; 3],
        rows: Range<usize>,
    ) {
        let (level, dtype, size) = (cx.level, self.dtype, self.dtype.block_bytes());
        let Scratch { patches, w, rows: room, bias, y, halves, places } = scratch;
        let (filters, all) = (rows.len(), self.groups * self.filters);
        let m = filters * phases.iter().map(|p| p.each.len()).product::<usize>();
        let axes: Axes = phases.map(|p| p.axis.clone());
        let first = rows.start % self.filters;
        let group = rows.start % all / self.filters;
        let bytes = self.channels * self.filters * self.kernel.iter().product::<usize>() * size;
        let w = convert::floats(level, dtype, &cx.bytes(1)[group * bytes..][..bytes], w);
        let room = grown(room, m * self.channels * patches::taps(&axes));
        self.rows(phases, w, first..first + filters, room);
        let filters = Filters { rows: room, m };
        let bytes = self.channels * patches::elements(&axes) * size;
        let planes = &cx.bytes(0)[rows.start / self.filters * bytes..][..bytes];
        let bias: &[f32] = match self.bias {
            true => &convert::floats(level, dtype, cx.bytes(2), bias)[rows.start % all..],
            false => &[],
        };
        let columns = cx.result(0).columns::<u8>();
        let share = columns.start / size..columns.end / size;
        // Phases at the end of the axis may have a place less than a share's lines.
        let (axis, of_a_place) = self.outermost;
        let lines = axes[axis].outputs;
        let of_a_line = patches::positions(&axes) / lines.max(1);
        let before = |at: usize| at.div_ceil(of_a_place).min(lines) * of_a_line;
        let positions = before(share.start)..before(share.end);
        for start in positions.clone().step_by(TILE) {
            let tile = start..(start + TILE).min(positions.end);
            self.places(phases, tile.clone(), share.start, places);
            patches.aim(&axes, tile.clone());
            // Where no tap reaches the places there are no sums.
            let mut sums = patches.multiply(level, dtype, planes, &axes, self.channels, filters);
            for (i, row) in rows.clone().enumerate() {
                let bias = bias.get(i).copied().unwrap_or(0.0);
                for [(z, _), (row_of, _), (x, _)] in each(phases) {
                    let first = (z * self.outputs[1] + row_of) * self.outputs[2] + x;
                    let line = grown(y, TILE);
                    line.fill(bias);
                    if let Some(sums) = sums.next() {
                        line.iter_mut().zip(sums).for_each(|(y, sum)| *y += sum);
                    }
                    let line = &line[..tile.len()];
                    if dtype == DType::F32 {
                        spread(line, places, &mut cx.result(0).row(row)[first..]);
                        continue;
                    }
                    halves.resize(TILE, 0);
                    let halves = &mut halves[..line.len()];
                    convert::write(level, dtype, line, bytemuck::cast_slice_mut(halves));
                    spread(halves, places, &mut cx.result(0).row(row)[first..]);
                }
            }
        }
    }

    /// Where positions of phases stand in a share of a row of results, after the first of each phase.
    fn places(
        &self,
        phases: [&Phases; 3],
        tile: Range<usize>,
        before: usize,
        places: &mut Vec<usize>,
    ) {
        let [_, b, c] = phases;
        places.clear();
        places.extend(tile.map(|p| {
            let row = p / c.axis.outputs;
            let at = [row / b.axis.outputs, row % b.axis.outputs, p % c.axis.outputs];
            let [z, y, x] = core::array::from_fn(|i| at[i] * phases[i].apart);
            (z * self.outputs[1] + y) * self.outputs[2] + x - before
        }));
    }
}

/// One phase of each axis, in every way.
fn each<'a>([a, b, c]: [&'a Phases; 3]) -> impl Iterator<Item = [&'a (usize, Vec<usize>); 3]> + 'a {
    let last = move |a, b| c.each.iter().map(move |c| [a, b, c]);
    a.each.iter().flat_map(move |a| b.each.iter().flat_map(move |b| last(a, b)))
}

/// Elements to their places.
fn spread<T: Copy>(line: &[T], places: &[usize], row: &mut [T]) {
    line.iter().zip(places).for_each(|(x, at)| row[*at] = *x);
}
