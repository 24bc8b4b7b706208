//! A window that slides over planes, one row of results after the other: what convolutions with few filters and
//! pooling are. A row of results stays in cache while each tap's row of the image is added to it.

use super::convert;
use super::patches::{self, Axes};
use super::product::grown;
use crate::place::Split;
use crate::simd::{Simd, Task, dispatch};
use crate::view::Cx;
use core::ops::Range;
use rlx_core::types::DType;

/// Results of so many rows from which on shares are rows, and below it lines of places.
const ROWS_ENOUGH: usize = 16;

/// How results of a window, `rows` of them with all places, are cut.
pub(super) fn split(axes: &Axes, rows: usize, size: usize) -> Split {
    match rows {
        ROWS_ENOUGH.. => Split::Runs(rows),
        _ => Split::Grid(rows, axes[2].outputs * size),
    }
}

/// Elements, not padding, that each position of each axis has under its taps.
pub(super) type Counts = [Vec<usize>; 3];

/// How many elements each position has.
pub(super) fn counts(axes: &Axes) -> Counts {
    axes.each_ref().map(|axis| {
        let mut n = vec![0; axis.outputs];
        for tap in 0..axis.taps.len() {
            n[axis.inside(tap)].iter_mut().for_each(|n| *n += 1);
        }
        n
    })
}

/// Memory of a worker.
#[derive(Default)]
pub(super) struct Scratch {
    /// Planes that were widened, and one line of results.
    planes: Vec<f32>,
    y: Vec<f32>,
}

/// Planes of an image, and the window over them.
pub(super) struct Slide<'a> {
    pub(super) dtype: DType,
    pub(super) axes: &'a Axes,
    pub(super) planes: &'a [u8],
}

/// The line of an image under a tap of its last axis: position `at.start + i` has element `i * step`.
struct Under<'a> {
    at: Range<usize>,
    x: &'a [f32],
    step: usize,
}

impl Slide<'_> {
    /// A row of results: `start` and the sum of products with a filter, `[channels][taps]`.
    pub(super) fn sums(
        &self,
        cx: &mut Cx<'_>,
        scratch: &mut Scratch,
        row: usize,
        filter: &[f32],
        start: f32,
    ) {
        let level = cx.level;
        let taps = patches::taps(self.axes);
        self.lines(cx, scratch, row, |planes, places, y| {
            y.fill(start);
            for (plane, filter) in planes.zip(filter.chunks_exact(taps.max(1))) {
                self.each(plane, places, |tap, Under { at, x, step }| {
                    dispatch(level, Add { x, step, by: filter[tap], y: &mut y[at] });
                });
            }
        });
    }

    /// A row of results: the largest element of each window.
    pub(super) fn largest(&self, cx: &mut Cx<'_>, scratch: &mut Scratch, row: usize) {
        let level = cx.level;
        self.lines(cx, scratch, row, |planes, places, y| {
            y.fill(f32::NEG_INFINITY);
            for plane in planes {
                self.each(plane, places, |_, Under { at, x, step }| {
                    dispatch(level, Larger { x, step, y: &mut y[at] });
                });
            }
        });
    }

    /// A row of results: the mean of each window, by its taps, or by those of them that are no padding.
    pub(super) fn means(
        &self,
        cx: &mut Cx<'_>,
        scratch: &mut Scratch,
        row: usize,
        counts: Option<&Counts>,
    ) {
        let level = cx.level;
        let all = patches::taps(self.axes) as f32;
        self.lines(cx, scratch, row, |planes, [z, line], y| {
            y.fill(0.0);
            for plane in planes {
                self.each(plane, [z, line], |_, Under { at, x, step }| {
                    dispatch(level, Add { x, step, by: 1.0, y: &mut y[at] });
                });
            }
            let Some([of_z, of_lines, of_places]) = counts else {
                return y.iter_mut().for_each(|y| *y /= all);
            };
            let ahead = of_z[z] * of_lines[line];
            for (y, n) in y.iter_mut().zip(of_places) {
                *y /= (ahead * n).max(1) as f32;
            }
        });
    }

    /// Calls `f` for the lines of a row of results that are this share's: with the planes, the position along the
    /// first two axes, and the line.
    fn lines(
        &self,
        cx: &mut Cx<'_>,
        scratch: &mut Scratch,
        row: usize,
        mut f: impl FnMut(core::slice::ChunksExact<'_, f32>, [usize; 2], &mut [f32]),
    ) {
        let (level, size) = (cx.level, self.dtype.block_bytes());
        let planes = convert::floats(level, self.dtype, self.planes, &mut scratch.planes);
        let columns = cx.result(0).columns::<u8>();
        let width = self.axes[2].outputs;
        let y = grown(&mut scratch.y, width);
        let first = columns.start / (width * size).max(1);
        for line in first..columns.end / (width * size).max(1) {
            let planes = planes.chunks_exact(patches::elements(self.axes).max(1));
            let places = [line / self.axes[1].outputs, line % self.axes[1].outputs];
            f(planes, places, y);
            let at = (line - first) * width * size;
            let to = &mut cx.result(0).row::<u8>(row)[at..at + width * size];
            convert::write(level, self.dtype, y, to);
        }
    }

    /// Calls `f` with each tap of a line of places, and what of the plane lies under it.
    fn each(&self, plane: &[f32], [z, line]: [usize; 2], mut f: impl FnMut(usize, Under<'_>)) {
        let [depth, rows, columns] = self.axes;
        for a in 0..depth.taps.len() {
            let Some(z) = depth.source(z, a) else { continue };
            for b in 0..rows.taps.len() {
                let Some(row) = rows.source(line, b) else { continue };
                let x = &plane[(z * rows.input + row) * columns.input..][..columns.input];
                for c in 0..columns.taps.len() {
                    let at = columns.inside(c);
                    let Some(from) = columns.source(at.start, c).filter(|_| !at.is_empty()) else {
                        continue;
                    };
                    let tap = (a * rows.taps.len() + b) * columns.taps.len() + c;
                    f(tap, Under { at, x: &x[from..], step: columns.step as usize });
                }
            }
        }
    }
}

/// `y += by x`.
pub(super) struct Add<'a> {
    pub(super) x: &'a [f32],
    pub(super) step: usize,
    pub(super) by: f32,
    pub(super) y: &'a mut [f32],
}

impl Task for Add<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Add { x, step, by, y } = self;
        match step {
            1 => y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x),
            2 => y.iter_mut().zip(x.chunks(2)).for_each(|(y, x)| *y += by * x[0]),
            _ => y.iter_mut().zip(x.iter().step_by(step)).for_each(|(y, x)| *y += by * x),
        }
    }
}

/// The larger of both; what is no number is smaller than all.
struct Larger<'a> {
    x: &'a [f32],
    step: usize,
    y: &'a mut [f32],
}

impl Task for Larger<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Larger { x, step, y } = self;
        let larger = |y: &mut f32, x: f32| *y = if x > *y { x } else { *y };
        match step {
            1 => y.iter_mut().zip(x).for_each(|(y, x)| larger(y, *x)),
            2 => y.iter_mut().zip(x.chunks(2)).for_each(|(y, x)| larger(y, x[0])),
            _ => y.iter_mut().zip(x.iter().step_by(step)).for_each(|(y, x)| larger(y, *x)),
        }
    }
}
