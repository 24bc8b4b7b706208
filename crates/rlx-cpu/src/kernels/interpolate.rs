//! interpolate y[n, c, i..] = sum of neighbours around i's place in x[n, c], weighted along each axis
//! shapes      x f32|f16|bf16[n, channels, ..]   y of its type, [n, channels, size..]
//! operations  for a line of y: its input line for each neighbour along the axes ahead, then its elements for each
//!             neighbour along the last axis
//! bytes       x once for each neighbour line, from cache; y once; weights of an axis once for each line
//! shares      lines of y
//! numerics    weights in f64, rounded once; f32 sums, the axes ahead first

use super::convert::{self, FLOATS};
use super::product::grown;
use super::slide::Add;
use super::{Kernel, Planned, claim, sizes};
use crate::place::Split;
use crate::simd::{Simd, Task, dispatch};
use crate::view::Cx;
use core::cell::RefCell;
use core::ops::Range;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Interpolate;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// Elements along an axis, of each of which a program keeps its weights.
const LONGEST: u64 = 1 << 20;

/// What the results of an axis are made of.
struct Axis {
    input: usize,
    /// The first neighbour, and where the weights are.
    at: Vec<(usize, Range<usize>)>,
    weights: Vec<f32>,
    /// Whether each result is one element as it is.
    copies: bool,
}

impl Axis {
    fn new(taps: &[(usize, Vec<f64>)], input: usize) -> Axis {
        let mut axis = Axis { input, at: Vec::new(), weights: Vec::new(), copies: true };
        for (first, weights) in taps {
            let start = axis.weights.len();
            axis.weights.extend(weights.iter().map(|w| *w as f32));
            axis.at.push((*first, start..axis.weights.len()));
            axis.copies &= weights[..] == [1.0];
        }
        axis
    }

    /// Neighbours of a result with their weights.
    fn neighbours(&self, i: usize) -> impl Iterator<Item = (usize, f32)> {
        let (first, at) = &self.at[i];
        (*first..).zip(self.weights[at.clone()].iter().copied())
    }
}

struct Resize {
    dtype: DType,
    /// Missing axes come first.
    axes: [Axis; 3],
}

pub(super) fn takes(op: &Interpolate, operands: &[&Type], _: &Target) -> Result<(), String> {
    let Interpolate { size, mode: _, align_corners: _, antialias: _ } = op;
    claim::all_of(operands, FLOATS)?;
    let image = operands.first().and_then(|x| x.shape.static_dims().ok()).unwrap_or_default();
    match image.iter().skip(2).chain(size).find(|n| **n > LONGEST) {
        Some(n) => Err(format!("its kernel takes {LONGEST} elements along an axis, not {n}")),
        None => Ok(()),
    }
}

pub(super) fn plan(op: &Interpolate, step: &Step) -> rlx_core::Result<Planned> {
    let (x, y) = (sizes(&step.operands[0])?, sizes(&step.results[0])?);
    let mut axes = [(); 3].map(|()| Axis::new(&[(0, vec![1.0])], 1));
    let skip = axes.len().saturating_sub(op.size.len());
    for ((axis, &size), &input) in axes.iter_mut().skip(skip).zip(&op.size).zip(&x[2..]) {
        *axis = Axis::new(&op.taps(input as u64, size), input);
    }
    let lines = y[..y.len() - 1].iter().product::<usize>();
    let each = axes.iter().map(|a| a.weights.len().div_ceil(a.at.len())).sum::<usize>();
    let work = lines * y[y.len() - 1] * each;
    let dtype = step.results[0].ty.dtype;
    Ok(Planned::new(Resize { dtype, axes }, &[Split::Runs(lines)], work))
}

/// Memory of a worker.
#[derive(Default)]
struct Scratch {
    wide: Vec<f32>,
    line: Vec<f32>,
    y: Vec<f32>,
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Resize {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|Scratch { wide, line, y }| {
            let (level, dtype) = (cx.level, self.dtype);
            let [depth, rows, columns] = &self.axes;
            let size = dtype.block_bytes();
            let width = columns.input;
            let plane = depth.input * rows.input * width * size;
            for row in cx.result(0).rows.clone() {
                let (outer, i) = (row / rows.at.len(), row % rows.at.len());
                let (image, z) = (outer / depth.at.len(), outer % depth.at.len());
                let x = &cx.bytes(0)[image * plane..][..plane];
                let of =
                    |z: usize, i: usize| &x[(z * rows.input + i) * width * size..][..width * size];
                let line = if depth.copies && rows.copies {
                    convert::floats(level, dtype, of(depth.at[z].0, rows.at[i].0), wide)
                } else {
                    let line = grown(line, width);
                    line.fill(0.0);
                    for (z, of_z) in depth.neighbours(z) {
                        for (i, of_row) in rows.neighbours(i) {
                            let x = convert::floats(level, dtype, of(z, i), wide);
                            let by = of_z * of_row;
                            dispatch(level, Add { x, step: 1, by, y: &mut *line });
                        }
                    }
                    &*line
                };
                let y = grown(y, columns.at.len());
                dispatch(level, Along { axis: columns, x: line, y: &mut *y });
                convert::write(level, dtype, y, cx.result(0).row::<u8>(row));
            }
        });
    }
}

/// A line's results along the last axis.
struct Along<'a> {
    axis: &'a Axis,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Task for Along<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Along { axis, x, y } = self;
        if axis.copies {
            y.iter_mut().zip(&axis.at).for_each(|(y, (first, _))| *y = x[*first]);
            return;
        }
        for (y, (first, at)) in y.iter_mut().zip(&axis.at) {
            let weights = &axis.weights[at.clone()];
            let x = &x[*first..][..weights.len()];
            *y = match (weights, x) {
                ([a, b], [x, z]) => a * x + b * z,
                _ => weights.iter().zip(x).map(|(w, x)| w * x).sum(),
            };
        }
    }
}
