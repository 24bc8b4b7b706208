//! Elements in another order, or around others: what `transpose`, `slice`, `reverse`, `roll` and `pad` are.
//!
//! The source of a result's element is a sum over its axes, on each of which sources go on in a few equal
//! steps. Nothing of a tensor's size is made when a program is built.

use super::{Kernel, Planned};
use crate::place::Split;
use crate::view::Cx;

/// Indices of an axis whose sources are equally far apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) len: usize,
    /// The source of the first, in elements; `None` where a constant stands.
    pub(super) from: Option<isize>,
    pub(super) step: isize,
}

/// An axis of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axis(pub(super) Vec<Segment>);

impl Axis {
    /// All sources equally far apart.
    pub(super) fn even(len: usize, from: isize, step: isize) -> Axis {
        Axis(vec![Segment { len, from: Some(from), step }])
    }

    fn len(&self) -> usize {
        self.0.iter().map(|s| s.len).sum()
    }

    /// The source of index `i`.
    fn at(&self, mut i: usize) -> Option<isize> {
        for s in &self.0 {
            if i < s.len {
                return s.from.map(|from| from + i as isize * s.step);
            }
            i -= s.len;
        }
        None
    }

    /// The step, if there is one for the whole axis.
    fn step(&self) -> Option<isize> {
        match self.0.as_slice() {
            [Segment { from: Some(_), step, .. }] => Some(*step),
            _ => None,
        }
    }
}

/// Strides of row-major sizes.
pub(super) fn strides(dims: &[usize]) -> Vec<isize> {
    (0..dims.len()).map(|i| dims[i + 1..].iter().product::<usize>() as isize).collect()
}

struct Picks {
    outer: Vec<Axis>,
    inner: Axis,
    size: usize,
    /// Bytes of the constant.
    value: [u8; 8],
}

/// Rows and columns that are turned at once: a cache line of each. Longer pieces of rows that are a power of two apart
/// would push each other out of the cache.
const TILE: usize = 16;

/// A kernel of these axes, for elements of `size` bytes: 1, 2, 4 or 8.
pub(super) fn plan(mut axes: Vec<Axis>, size: usize, value: [u8; 8]) -> Planned {
    // Axes that run on into each other are one, and those of one index add to another.
    let mut i = 0;
    while i + 1 < axes.len() {
        let (a, b) = (&axes[i], &axes[i + 1]);
        let joined = match (a.0.as_slice(), b.0.as_slice()) {
            ([a], [b]) => match (a.from, b.from) {
                (Some(x), Some(y)) if a.len == 1 => Some((b.len, x + y, b.step)),
                (Some(x), Some(y)) if b.len == 1 => Some((a.len, x + y, a.step)),
                (Some(x), Some(y)) if a.step == b.step * b.len as isize => {
                    Some((a.len * b.len, x + y, b.step))
                }
                _ => None,
            },
            _ => None,
        };
        match joined {
            Some((len, from, step)) => {
                axes[i] = Axis::even(len, from, step);
                axes.remove(i + 1);
            }
            None => i += 1,
        }
    }
    let inner = axes.pop().unwrap_or(Axis::even(1, 0, 1));
    let row = inner.len() * size;
    let rows: usize = axes.iter().map(Axis::len).product();
    // One row may be cut anywhere, several between them.
    let split = Split::Flat(if rows == 1 { 64 } else { row });
    let kernel = Picks { outer: axes, inner, size, value };
    Planned::new(kernel, &[split], rows * row)
}

impl Kernel for Picks {
    fn run(&self, cx: &mut Cx<'_>) {
        match self.size {
            1 => self.run_as::<1>(cx),
            2 => self.run_as::<2>(cx),
            4 => self.run_as::<4>(cx),
            _ => self.run_as::<8>(cx),
        }
    }
}

impl Picks {
    fn run_as<const N: usize>(&self, cx: &mut Cx<'_>) {
        let x = cx.bytes(0).as_chunks::<N>().0;
        let n = self.inner.len();
        let first = cx.result(0).columns::<u8>().start / N;
        let y = cx.result(0).row::<u8>(0).as_chunks_mut::<N>().0;
        let value = self.value.first_chunk::<N>().copied().unwrap_or([0; N]);
        let (mut row, mut column, mut done) = (first / n, first % n, 0);
        while done < y.len() {
            // A page, which downloads each copy, has no large tensors of other sizes.
            let turns = cfg!(not(target_family = "wasm")) || N == 4;
            let rows = if turns { self.tile(row, (y.len() - done) / n) } else { 1 };
            if column == 0 && rows > 1 {
                let y = &mut y[done..done + rows * n];
                self.turn(x, row, rows, y);
                row += rows;
                done += rows * n;
                continue;
            }
            let len = (n - column).min(y.len() - done);
            let to = &mut y[done..done + len];
            match self.base(row) {
                Some(base) => copy(&self.inner, x, base, column, value, to),
                None => to.fill(value),
            }
            done += len;
            (row, column) = (row + 1, 0);
        }
    }

    /// Where a row's sources begin.
    fn base(&self, mut row: usize) -> Option<isize> {
        let mut base = 0;
        for axis in self.outer.iter().rev() {
            let n = axis.len();
            base += axis.at(row % n)?;
            row /= n;
        }
        Some(base)
    }

    /// Rows from `row` on whose sources stand side by side, at most `most`; 1 where turning them gains nothing.
    fn tile(&self, row: usize, most: usize) -> usize {
        let Some(axis) = self.outer.last() else { return 1 };
        let steps = (axis.step(), self.inner.step());
        if !matches!(steps, (Some(1), Some(step)) if step > 1) {
            return 1;
        }
        let n = axis.len();
        (n - row % n).min(TILE).min(most).max(1)
    }

    /// Rows whose sources stand side by side, by squares: a source's line is read once, and a result's written once.
    fn turn<const N: usize>(&self, x: &[[u8; N]], row: usize, rows: usize, y: &mut [[u8; N]]) {
        let (n, step) = (self.inner.len(), self.inner.step().unwrap_or(1) as usize);
        let start = self.base(row).zip(self.inner.at(0)).map_or(0, |(a, b)| (a + b) as usize);
        let mut square = [[[0; N]; TILE]; TILE];
        for first in (0..n).step_by(TILE) {
            let columns = TILE.min(n - first);
            for (c, line) in square[..columns].iter_mut().enumerate() {
                line[..rows].copy_from_slice(&x[start + (first + c) * step..][..rows]);
            }
            for (r, y) in y.chunks_exact_mut(n).enumerate() {
                y[first..first + columns].iter_mut().zip(&square).for_each(|(y, x)| *y = x[r]);
            }
        }
    }
}

/// Elements of a row from column `at` on.
fn copy<const N: usize>(
    axis: &Axis,
    x: &[[u8; N]],
    base: isize,
    mut at: usize,
    value: [u8; N],
    mut to: &mut [[u8; N]],
) {
    for s in &axis.0 {
        if at >= s.len {
            at -= s.len;
            continue;
        }
        let (now, later) = to.split_at_mut((s.len - at).min(to.len()));
        let from = s.from.map(|from| base + from + at as isize * s.step);
        match (from, s.step) {
            (None, _) => now.fill(value),
            (Some(from), 1) => now.copy_from_slice(&x[from as usize..][..now.len()]),
            (Some(from), 0) => now.fill(x[from as usize]),
            (Some(mut from), step) => {
                for y in now {
                    *y = x[from as usize];
                    from += step;
                }
            }
        }
        (to, at) = (later, 0);
        if to.is_empty() {
            return;
        }
    }
}
