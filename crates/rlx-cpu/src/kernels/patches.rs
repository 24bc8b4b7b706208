//! Products of filters with the patches of an image under them: what `conv` and `conv_transpose` share.
//!
//! An implicit product of matrices: patches of 16 positions are gathered to a panel `[k][16]`, as weights stand in
//! memory, and meet the filters in the tiles that matmul has ([`dense`]). A filter is a row of x there, which is
//! how a file has it, so that nothing is packed at load. Only a part of k of few panels exists at a time, in a
//! core's second cache; no image is written out as columns.

use super::convert;
use super::dense::{self, F32, Panels, Rows, Sums};
use super::product::grown;
use crate::panel::ROWS;
use crate::simd::Level;
use core::ops::Range;
use rlx_core::ops::Window;
use rlx_core::types::DType;

/// A spatial axis: position `i` has under tap `t` the element `i * step + taps[t]`, or padding outside the axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) input: usize,
    pub(super) outputs: usize,
    pub(super) step: i64,
    pub(super) taps: Vec<i64>,
}

impl Axis {
    /// The element under a tap.
    pub(super) fn source(&self, i: usize, tap: usize) -> Option<usize> {
        let at = i as i64 * self.step + self.taps[tap];
        usize::try_from(at).ok().filter(|at| *at < self.input)
    }

    /// The positions that have an element under a tap.
    pub(super) fn inside(&self, tap: usize) -> Range<usize> {
        let (off, step) = (self.taps[tap], self.step.max(1));
        let up = |n: i64| n.max(0).unsigned_abs().div_ceil(step.unsigned_abs()) as usize;
        let start = up(-off).min(self.outputs);
        start..up(self.input as i64 - off).clamp(start, self.outputs)
    }
}

/// Three axes of an image: missing ones come first, with one element.
pub(super) type Axes = [Axis; 3];

/// The axes over which a window slides; each axis with its input, taps and outputs.
pub(super) fn axes(window: &Window, input: &[usize], kernel: &[usize], outputs: &[usize]) -> Axes {
    let one = || Axis { input: 1, outputs: 1, step: 1, taps: vec![0] };
    let mut axes = [one(), one(), one()];
    let skip = axes.len().saturating_sub(input.len());
    for (i, axis) in axes.iter_mut().skip(skip).enumerate() {
        let at = |list: &[u64]| list.get(i).map_or(0, |n| *n as i64);
        let (low, dilation) = (at(&window.pad_low), at(&window.dilation));
        *axis = Axis {
            input: input[i],
            outputs: outputs[i],
            step: at(&window.stride),
            taps: (0..kernel[i] as i64).map(|t| t * dilation - low).collect(),
        };
    }
    axes
}

/// Elements of an image.
pub(super) fn elements(axes: &Axes) -> usize {
    axes.iter().map(|a| a.input).product()
}

/// Positions of a window.
pub(super) fn positions(axes: &Axes) -> usize {
    axes.iter().map(|a| a.outputs).product()
}

/// Taps of a window.
pub(super) fn taps(axes: &Axes) -> usize {
    axes.iter().map(|a| a.taps.len()).product()
}

/// Where the elements of 16 positions under one tap stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// All in the padding.
    Padding,
    /// One behind the other.
    Run(usize),
    /// So far apart.
    Apart(usize, usize),
    /// Anywhere; `usize::MAX` is padding.
    Any([usize; ROWS]),
}

/// Panels of a tile: their sums with a few hundred filters stay in the second cache.
const PANELS: usize = 8;
/// Positions of a tile.
pub(super) const TILE: usize = PANELS * ROWS;
/// Elements of k that are gathered at once: two panels of them fit the first cache.
const PART: usize = 256;

/// Memory of a worker.
#[derive(Default)]
pub(super) struct Scratch {
    lines: Vec<Line>,
    panels: Vec<f32>,
    halves: Vec<u16>,
    pub(super) sums: Vec<f32>,
}

/// Filters as rows `[m][k]`, k running over channels and taps.
#[derive(Clone, Copy)]
pub(super) struct Filters<'a> {
    pub(super) rows: &'a [f32],
    pub(super) m: usize,
}

impl Scratch {
    /// Finds out what lies under these positions, at most [`TILE`] of them, for [`multiply`](Self::multiply).
    pub(super) fn aim(&mut self, axes: &Axes, places: Range<usize>) {
        self.lines.clear();
        for start in places.clone().step_by(ROWS) {
            self.aim_panel(axes, start..(start + ROWS).min(places.end));
        }
    }

    fn aim_panel(&mut self, axes: &Axes, places: Range<usize>) {
        let [depth, rows, columns] = axes;
        let mut at = [[0; 3]; ROWS];
        for (at, p) in at.iter_mut().zip(places.clone()) {
            let row = p / columns.outputs;
            *at = [row / rows.outputs, row % rows.outputs, p % columns.outputs];
        }
        let (first, last) = (at[0], at[places.len() - 1]);
        let whole = places.len() == ROWS && first[..2] == last[..2];
        for z in 0..depth.taps.len() {
            for y in 0..rows.taps.len() {
                let row = |at: &[usize; 3]| {
                    let z = depth.source(at[0], z)?;
                    Some((z * rows.input + rows.source(at[1], y)?) * columns.input)
                };
                let of_first = row(&first);
                for x in 0..columns.taps.len() {
                    let ends = (columns.source(first[2], x), columns.source(last[2], x));
                    let line = match (whole, of_first, ends) {
                        (true, None, _) => Line::Padding,
                        (true, Some(row), (Some(x), Some(_))) => match columns.step {
                            1 => Line::Run(row + x),
                            step => Line::Apart(row + x, step as usize),
                        },
                        _ => {
                            let mut any = [usize::MAX; ROWS];
                            for (any, at) in any.iter_mut().zip(&at[..places.len()]) {
                                let source = row(at).zip(columns.source(at[2], x));
                                *any = source.map_or(usize::MAX, |(row, x)| row + x);
                            }
                            Line::Any(any)
                        }
                    };
                    self.lines.push(line);
                }
            }
        }
    }

    /// Sums of filters over the planes of a group's channels, at the positions that were aimed at: a line for each
    /// filter, with whole panels of positions.
    pub(super) fn multiply(
        &mut self,
        level: Level,
        dtype: DType,
        planes: &[u8],
        axes: &Axes,
        channels: usize,
        filters: Filters<'_>,
    ) -> core::slice::ChunksExact<'_, f32> {
        let (taps, plane, m) = (taps(axes), elements(axes), filters.m);
        let (k, panels) = (taps * channels, self.lines.len() / taps.max(1));
        let Scratch { lines, panels: room, halves, sums } = self;
        let sums = grown(sums, panels * m * ROWS);
        if k == 0 || planes.is_empty() {
            sums.fill(0.0);
            return sums.chunks_exact((panels * ROWS).max(1));
        }
        // Parts of one length, nearly.
        let part = k.div_ceil(k.div_ceil(PART));
        for start in (0..k).step_by(part) {
            let part = start..(start + part).min(k);
            let n = part.len() * ROWS;
            let room = grown(room, panels * n);
            for (panel, lines) in room.chunks_exact_mut(n).zip(lines.chunks_exact(taps)) {
                if dtype == DType::F32 {
                    gather(bytemuck::cast_slice(planes), plane, lines, &part, panel);
                    continue;
                }
                halves.resize(n.max(halves.len()), 0);
                let halves = &mut halves[..n];
                gather(bytemuck::cast_slice(planes), plane, lines, &part, halves);
                convert::read(level, dtype, bytemuck::cast_slice(halves), panel);
            }
            let of_part = Panels::dense::<F32>(bytemuck::cast_slice(room), part.len());
            let x = &filters.rows[part.start..];
            let filters = Rows { x, apart: k, k: part.len(), n: m };
            dense::add::<F32>(level, of_part, filters, Sums::new(sums, m).more(part.start > 0));
        }
        sums.chunks_exact((panels * ROWS).max(1))
    }
}

/// Elements `part` of k of 16 positions: `[k][16]`.
fn gather<T: Copy + Default>(
    x: &[T],
    plane: usize,
    lines: &[Line],
    part: &Range<usize>,
    panel: &mut [T],
) {
    let (mut channel, mut tap) = (part.start / lines.len(), part.start % lines.len());
    for to in panel.as_chunks_mut::<ROWS>().0 {
        let x = &x[channel * plane..(channel + 1) * plane];
        match &lines[tap] {
            Line::Padding => *to = [T::default(); ROWS],
            Line::Run(at) => to.copy_from_slice(&x[*at..at + ROWS]),
            Line::Apart(at, step) => {
                let x = &x[*at..=at + (ROWS - 1) * step];
                for (i, to) in to.iter_mut().enumerate() {
                    *to = x[i * step];
                }
            }
            Line::Any(any) => {
                for (to, at) in to.iter_mut().zip(any) {
                    *to = x.get(*at).copied().unwrap_or_default();
                }
            }
        }
        tap += 1;
        if tap == lines.len() {
            (channel, tap) = (channel + 1, 0);
        }
    }
}
