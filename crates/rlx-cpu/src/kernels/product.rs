//! Products of two tensors, batch by batch: what `batch_matmul` and `dot_general` are.
//!
//! Sixteen columns of b are packed to a panel `[k][16]`, as weights stand in memory, and meet all rows of a
//! in the tiles that matmul has ([`dense`]). One or two rows of a read b as it is.

use super::convert;
use super::dense::{self, F32, Panels, Rows, Sums};
use super::{Kernel, Planned};
use crate::panel::ROWS;
use crate::place::Split;
use crate::simd::{LANES, Level, Simd, Task, dispatch};
use crate::view::Cx;
use core::cell::RefCell;
use core::ops::Range;
use rlx_core::types::{DType, Dim};

/// Where the indices of some axes, taken as one, stand: `at(i)` elements on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// One behind the other, so far apart.
    Step(usize),
    /// Anywhere.
    Table(Vec<usize>),
}

impl Places {
    /// Of axes given by size and stride, the last one fastest.
    pub(super) fn new(axes: &[(usize, usize)]) -> Places {
        let mut axes = axes.iter().rev().filter(|a| a.0 != 1);
        let Some(&(mut n, step)) = axes.next() else { return Places::Step(0) };
        let mut table: Option<Vec<usize>> = None;
        for &(size, stride) in axes {
            if table.is_none() && stride == n * step {
                n *= size;
                continue;
            }
            let inner = table.take().unwrap_or_else(|| (0..n).map(|i| i * step).collect());
            let outer = (0..size).map(|i| i * stride);
            table = Some(outer.flat_map(|at| inner.iter().map(move |i| at + i)).collect());
        }
        table.map_or(Places::Step(step), Places::Table)
    }

    fn at(&self, i: usize) -> usize {
        match self {
            Places::Step(step) => i * step,
            Places::Table(table) => table[i],
        }
    }
}

/// One side of a product: where rows of a, or columns of b, stand, and elements of them.
pub(super) struct Side {
    pub(super) lines: Places,
    pub(super) k: Places,
}

pub(super) struct Product {
    pub(super) dtype: DType,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    /// Where each batch begins in a and in b.
    pub(super) batches: Vec<[usize; 2]>,
    pub(super) a: Side,
    pub(super) b: Side,
}

/// With so many columns and at most so few rows, shares are columns: a share of rows would pack all of b.
const MANY: usize = 1024;
const ROWS_OF_MANY: usize = 16;

/// Rows of a batch that meet b where it stands: by the batch, not by the share, so that results do not depend
/// on the threads.
const FEW: usize = 2;

/// Batches, or indices that stand anywhere, of which a program keeps a list.
pub(super) const LISTED: u64 = 1 << 22;

/// Fails where a list of the product of these sizes would be too long.
pub(super) fn listed<'a>(dims: impl Iterator<Item = &'a Dim>) -> Result<(), String> {
    let n = dims.filter_map(Dim::as_static).try_fold(1u64, u64::checked_mul);
    match n {
        Some(n) if n <= LISTED => Ok(()),
        _ => Err(format!("its kernel lists at most {LISTED} batches or indices")),
    }
}

/// Memory of a worker that products reuse.
#[derive(Default)]
pub(super) struct Scratch {
    x: Vec<f32>,
    b: Vec<f32>,
    panel: Vec<f32>,
    y: Vec<f32>,
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The first `n` elements, of as many as there must be.
pub(super) fn grown(v: &mut Vec<f32>, n: usize) -> &mut [f32] {
    if v.len() < n {
        v.resize(n, 0.0);
    }
    &mut v[..n]
}

impl Product {
    pub(super) fn planned(self) -> Planned {
        let rows = self.batches.len() * self.m;
        let work = rows * self.n * self.k.max(1);
        let split = if rows <= ROWS_OF_MANY && self.n >= MANY {
            Split::Grid(rows, ROWS * self.dtype.block_bytes())
        } else {
            Split::Runs(rows)
        };
        Planned::new(self, &[split], work)
    }

    /// Rows `i` of a batch: `[rows][k]`.
    fn rows<'a>(
        &self,
        level: Level,
        a: &'a [u8],
        first: usize,
        i: Range<usize>,
        room: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        let (k, size) = (self.k, self.dtype.block_bytes());
        let apart = matches!(self.a.lines, Places::Step(step) if step == k || i.len() == 1);
        if apart && (self.a.k == Places::Step(1) || k == 1) {
            let start = first + self.a.lines.at(i.start);
            let bytes = &a[start * size..][..i.len() * k * size];
            return convert::floats(level, self.dtype, bytes, room);
        }
        let room = grown(room, i.len() * k);
        for (row, i) in room.chunks_exact_mut(k.max(1)).zip(i) {
            line(level, self.dtype, a, first + self.a.lines.at(i), &self.a.k, row);
        }
        room
    }

    /// Columns `j` of a batch of b as a panel.
    fn panel(
        &self,
        level: Level,
        b: &[u8],
        first: usize,
        j: Range<usize>,
        room: &mut Vec<f32>,
        panel: &mut [f32],
    ) {
        let (k, size) = (self.k, self.dtype.block_bytes());
        if self.b.lines == Places::Step(1) {
            if j.len() < ROWS {
                panel.fill(0.0);
            }
            for (kk, to) in panel.chunks_exact_mut(ROWS).enumerate() {
                let at = first + self.b.k.at(kk) + j.start;
                convert::read(
                    level,
                    self.dtype,
                    &b[at * size..][..j.len() * size],
                    &mut to[..j.len()],
                );
            }
            return;
        }
        let lines = grown(room, ROWS * k);
        lines[j.len() * k..].fill(0.0);
        for (to, j) in lines.chunks_exact_mut(k.max(1)).zip(j) {
            line(level, self.dtype, b, first + self.b.lines.at(j), &self.b.k, to);
        }
        dispatch(level, Interleave { lines, k, panel });
    }

    /// Rows of one batch.
    fn batch(&self, cx: &mut Cx<'_>, scratch: &mut Scratch, batch: usize, i: Range<usize>) {
        let (level, size) = (cx.level, self.dtype.block_bytes());
        let (a, b) = (cx.bytes(0), cx.bytes(1));
        let [of_a, of_b] = self.batches[batch];
        let Scratch { x, b: room, panel, y } = scratch;
        let x = self.rows(level, a, of_a, i.clone(), x);
        let row = batch * self.m + i.start;
        if self.m <= FEW && self.dtype == DType::F32 && self.few(cx, b, of_b, x, row, y) {
            return;
        }
        let several = dense::TOGETHER * ROWS;
        let share = cx.result(0).columns::<u8>();
        let share = share.start / size..share.end / size;
        for start in share.clone().step_by(several) {
            let j = start..(start + several).min(share.end);
            let panels = grown(panel, self.k * j.len().next_multiple_of(ROWS));
            let columns = |p: usize| start + p * ROWS..(start + (p + 1) * ROWS).min(share.end);
            for (p, panel) in panels.chunks_exact_mut((self.k * ROWS).max(1)).enumerate() {
                self.panel(level, b, of_b, columns(p), room, panel);
            }
            let wide = j.len().next_multiple_of(ROWS);
            let y = grown(y, i.len() * wide);
            let panels = Panels::dense::<F32>(bytemuck::cast_slice(panels), self.k);
            let x = Rows { x, apart: self.k, k: self.k, n: i.len() };
            dense::add::<F32>(level, panels, x, Sums::new(y, i.len()));
            for (r, y) in y.chunks_exact(wide).enumerate() {
                let to = &mut cx.result(0).row::<u8>(row + r)[(j.start - share.start) * size..]
                    [..j.len() * size];
                convert::write(level, self.dtype, &y[..j.len()], to);
            }
        }
    }

    /// The same where rows are few and b is read as it stands; false if it does not stand so.
    fn few(
        &self,
        cx: &mut Cx<'_>,
        b: &[u8],
        first: usize,
        x: &[f32],
        row: usize,
        sums: &mut Vec<f32>,
    ) -> bool {
        let (k, level, share) = (self.k, cx.level, cx.result(0).columns::<f32>());
        let b: &[f32] = if b.is_empty() { &[] } else { bytemuck::cast_slice(b) };
        let (Places::Step(lines), Places::Step(step)) = (&self.b.lines, &self.b.k) else {
            return false;
        };
        let b = &b[first.min(b.len())..];
        if *step == 1 || k == 1 {
            for (r, x) in x.chunks_exact(k.max(1)).enumerate() {
                for (j, y) in share.clone().zip(cx.result(0).row::<f32>(row + r)) {
                    *y = dispatch(level, Dot { a: x, b: &b[j * lines..][..k] });
                }
            }
            return k > 0;
        }
        if *lines == 1 {
            for (r, x) in x.chunks_exact(k.max(1)).enumerate() {
                let sums = grown(sums, share.len());
                sums.fill(0.0);
                for (kk, x) in x.iter().enumerate() {
                    let x_of = &b[kk * step..][share.clone()];
                    dispatch(level, AddScaled { x: x_of, by: *x, y: sums });
                }
                cx.result(0).row::<f32>(row + r).copy_from_slice(sums);
            }
            return k > 0;
        }
        false
    }
}

impl Kernel for Product {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|scratch| {
            let rows = cx.result(0).rows.clone();
            let mut row = rows.start;
            while row < rows.end {
                let (batch, i) = (row / self.m, row % self.m);
                let end = self.m.min(i + rows.end - row);
                self.batch(cx, scratch, batch, i..end);
                row += end - i;
            }
        });
    }
}

/// Elements of a row or column, one behind the other.
fn line(level: Level, dtype: DType, bytes: &[u8], first: usize, k: &Places, to: &mut [f32]) {
    let size = dtype.block_bytes();
    if *k == Places::Step(1) {
        return convert::read(level, dtype, &bytes[first * size..][..to.len() * size], to);
    }
    for (i, to) in to.iter_mut().enumerate() {
        let at = (first + k.at(i)) * size;
        convert::read(level, dtype, &bytes[at..at + size], core::slice::from_mut(to));
    }
}

/// Sixteen lines of `k` elements to a panel `[k][16]`, four by four.
pub(super) struct Interleave<'a> {
    pub(super) lines: &'a [f32],
    pub(super) k: usize,
    pub(super) panel: &'a mut [f32],
}

impl Task for Interleave<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Interleave { lines, k, panel } = self;
        let whole = k / 4 * 4;
        for four in 0..ROWS / 4 {
            let line = |i: usize| &lines[(4 * four + i) * k..][..k];
            let [a, b, c, d] = [line(0), line(1), line(2), line(3)];
            let fours = a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0);
            let others = c.as_chunks::<4>().0.iter().zip(d.as_chunks::<4>().0);
            let rows = panel.as_chunks_mut::<{ 4 * ROWS }>().0.iter_mut();
            for (((a, b), (c, d)), to) in fours.zip(others).zip(rows) {
                for t in 0..4 {
                    to[t * ROWS + 4 * four] = a[t];
                    to[t * ROWS + 4 * four + 1] = b[t];
                    to[t * ROWS + 4 * four + 2] = c[t];
                    to[t * ROWS + 4 * four + 3] = d[t];
                }
            }
            for t in whole..k {
                panel[t * ROWS + 4 * four..][..4].copy_from_slice(&[a[t], b[t], c[t], d[t]]);
            }
        }
    }
}

/// A dot product.
struct Dot<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl Task for Dot<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let ((a, a_rest), (b, b_rest)) = (self.a.as_chunks::<LANES>(), self.b.as_chunks::<LANES>());
        let mut acc = [s.splat(0.0); 2];
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            acc[i % 2] = s.fma(s.load(a), s.load(b), acc[i % 2]);
        }
        let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
        s.sum(s.add(acc[0], acc[1])) + rest
    }
}

/// `y += by x`.
struct AddScaled<'a> {
    x: &'a [f32],
    by: f32,
    y: &'a mut [f32],
}

impl Task for AddScaled<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.y.iter_mut().zip(self.x).for_each(|(y, x)| *y += self.by * x);
    }
}

#[cfg(feature = "internals")]
#[allow(missing_docs)]
pub mod tests {
    use super::*;

    pub fn axes_that_run_on_are_a_step_and_others_a_table() {
        assert_eq!(Places::new(&[]), Places::Step(0));
        assert_eq!(Places::new(&[(3, 4), (4, 1)]), Places::Step(1));
        assert_eq!(Places::new(&[(3, 8), (1, 100), (4, 2)]), Places::Step(2));
        assert_eq!(Places::new(&[(2, 10), (3, 1)]), Places::Table(vec![0, 1, 2, 10, 11, 12]));
        let table = vec![0, 5, 1, 6, 100, 105, 101, 106];
        assert_eq!(Places::new(&[(2, 100), (2, 1), (2, 5)]), Places::Table(table));
    }
}
