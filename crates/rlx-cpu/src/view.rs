//! The views of memory that kernels get: a step's operands, and a worker's share of its results.
//!
//! **Unsafe.** A [`Share`] gives out its own bytes of a result. Whoever makes one promises that they are; only
//! [`run`](crate::run) does, with the argument at its head.
#![allow(unsafe_code)]

use crate::place::{Output, Split};
use crate::simd::Level;
use crate::turns::lock;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use rlx_core::Error;
use std::sync::Mutex;

/// Most operands of a kernel in this crate: a matmul with 4 biased segments, a norm and a residual.
/// Bodies of control flow have more; a list has their views.
const OPERANDS: usize = 12;
/// Most results of such a kernel: four segments.
const RESULTS: usize = 4;

/// One worker's share of a result: a range of its rows, and of each row's bytes.
pub(crate) struct Share<'a> {
    start: NonNull<u8>,
    row_bytes: usize,
    /// Rows.
    pub(crate) rows: Range<usize>,
    /// Bytes of a row.
    columns: Range<usize>,
    memory: PhantomData<&'a mut [u8]>,
}

impl Share<'_> {
    /// Share `share` of `shares` of a result.
    ///
    /// # Safety
    /// From `start` on there are `rows` times `row_bytes` initialised bytes of `output`. While the share lives nobody
    /// reads or writes those that are its own by [`cut`](Self::cut).
    pub(crate) unsafe fn new(
        start: NonNull<u8>,
        output: &Output,
        share: usize,
        shares: usize,
    ) -> Self {
        let (rows, columns) = Share::cut(output, share, shares);
        Share { start, row_bytes: output.row_bytes, rows, columns, memory: PhantomData }
    }

    /// The rows, and the bytes of each row, in share `share` of `shares`. Shares are disjoint.
    fn cut(output: &Output, share: usize, shares: usize) -> (Range<usize>, Range<usize>) {
        let range = |n: usize, granule: usize| {
            let units = n.div_ceil(granule.max(1));
            let edge = |p: usize| (units * p / shares * granule.max(1)).min(n);
            edge(share)..edge(share + 1)
        };
        let (rows, columns) = (0..output.rows, 0..output.row_bytes);
        match output.split {
            Split::Rows | Split::Runs(_) => (range(output.rows, 1), columns),
            Split::Columns(granule) | Split::Flat(granule) | Split::Grid(_, granule) => {
                (rows, range(output.row_bytes, granule))
            }
            Split::First if share == 0 => (rows, columns),
            Split::First => (0..0, 0..0),
        }
    }

    pub(crate) const fn empty() -> Self {
        Share {
            start: NonNull::dangling(),
            row_bytes: 0,
            rows: 0..0,
            columns: 0..0,
            memory: PhantomData,
        }
    }

    /// The share's bytes of row `r`, as elements.
    ///
    /// # Panics
    /// If the share does not have that row.
    pub(crate) fn row<T: bytemuck::Pod>(&mut self, r: usize) -> &mut [T] {
        assert!(self.rows.contains(&r), "row {r} is another worker's");
        // SAFETY: `cut` clips rows and columns to the result, whose bytes are there, initialised, and this
        // share's alone by the contract of `new`; `&mut self` keeps the share from having them twice.
        let bytes = unsafe {
            let at = self.start.as_ptr().add(r * self.row_bytes + self.columns.start);
            core::slice::from_raw_parts_mut(at, self.columns.len())
        };
        bytemuck::cast_slice_mut(bytes)
    }

    /// The share's range of a row's elements of type `T`.
    pub(crate) fn columns<T>(&self) -> Range<usize> {
        self.columns.start / size_of::<T>()..self.columns.end / size_of::<T>()
    }

    /// True if this share has nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() || self.columns.is_empty()
    }
}

/// The first error of a run. It is no `OnceLock`, because a page's thread must not wait for another thread.
#[derive(Default)]
pub(crate) struct Failure {
    is_set: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl Failure {
    fn set(&self, e: Error) {
        lock(&self.error).get_or_insert(e);
        self.is_set.store(true, SeqCst);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(SeqCst)
    }

    pub(crate) fn get(&self) -> Option<Error> {
        lock(&self.error).clone()
    }
}

/// A kernel's view of a step: its operands, and its share of the results.
pub(crate) struct Cx<'a> {
    /// The SIMD level.
    pub(crate) level: Level,
    operands: [&'a [u8]; OPERANDS],
    /// Operands beyond the first `OPERANDS`.
    more_operands: Vec<&'a [u8]>,
    results: [Share<'a>; RESULTS],
    /// Results beyond the first `RESULTS`.
    more_results: Vec<Share<'a>>,
    n_results: usize,
    limit: usize,
    failure: &'a Failure,
    /// One bit for each operand: whether it is a weight that is stored as panels.
    panels: u64,
}

impl<'a> Cx<'a> {
    /// A view of operands, each with whether it is a weight that is stored as panels, and of shares of results.
    pub(crate) fn new(
        level: Level,
        operands: impl Iterator<Item = (&'a [u8], bool)>,
        results: impl Iterator<Item = Share<'a>>,
        limit: usize,
        failure: &'a Failure,
    ) -> Self {
        let mut cx = Cx {
            level,
            operands: [&[]; OPERANDS],
            more_operands: Vec::new(),
            results: [const { Share::empty() }; RESULTS],
            more_results: Vec::new(),
            n_results: 0,
            limit,
            failure,
            panels: 0,
        };
        for (i, (bytes, is_panels)) in operands.enumerate() {
            cx.panels |= u64::from(is_panels).checked_shl(i as u32).unwrap_or(0);
            match cx.operands.get_mut(i) {
                Some(operand) => *operand = bytes,
                None => cx.more_operands.push(bytes),
            }
        }
        for share in results {
            match cx.results.get_mut(cx.n_results) {
                Some(result) => *result = share,
                None => cx.more_results.push(share),
            }
            cx.n_results += 1;
        }
        cx
    }

    /// Whether the share of any result has something to write.
    pub(crate) fn has_work(&self) -> bool {
        self.results.iter().chain(&self.more_results).any(|r| !r.is_empty())
    }

    /// Whether operand `i` is a weight that is stored as panels.
    pub(crate) fn is_panels(&self, i: usize) -> bool {
        self.panels.checked_shr(i as u32).is_some_and(|bits| bits & 1 == 1)
    }

    /// How many results the step has.
    pub(crate) fn results(&self) -> usize {
        self.n_results
    }

    /// Operand `i`. Empty if the step writes it: only the result shows it then.
    pub(crate) fn bytes(&self, i: usize) -> &'a [u8] {
        match i.checked_sub(OPERANDS) {
            None => self.operands[i],
            Some(i) => self.more_operands[i],
        }
    }

    /// Operand `i` as elements. Places are aligned: this was checked when the program was built, and for
    /// weights when their bytes were loaded.
    pub(crate) fn slice<T: bytemuck::Pod>(&self, i: usize) -> &'a [T] {
        match self.bytes(i) {
            // An empty slice may have any address.
            [] => &[],
            bytes => bytemuck::cast_slice(bytes),
        }
    }

    /// The share of result `i`.
    pub(crate) fn result(&mut self, i: usize) -> &mut Share<'a> {
        match i.checked_sub(RESULTS) {
            None => &mut self.results[i],
            Some(i) => &mut self.more_results[i],
        }
    }

    /// Fails the run: no later step runs, and the submission answers with its first error.
    #[cfg_attr(not(feature = "reference"), allow(dead_code))]
    pub(crate) fn fail(&self, e: Error) {
        self.failure.set(e);
    }

    /// How many of `rows` rows are live; the others need not be computed.
    pub(crate) fn real(&self, rows: usize) -> usize {
        rows.min(self.limit)
    }
}

#[cfg(feature = "internals")]
#[allow(missing_docs)]
pub mod tests {
    use super::*;
    use crate::place::{Place, Space};

    pub fn shares_cover_a_result_once() {
        let splits = [
            Split::Rows,
            Split::Runs(3),
            Split::Columns(64),
            Split::Columns(12),
            Split::Flat(16),
            Split::Grid(2, 24),
            Split::First,
        ];
        for split in splits {
            for (rows, row_bytes) in [(1, 4), (1, 64), (5, 200), (3, 60), (0, 64), (7, 1024)] {
                for shares in 1..7 {
                    let place = Place { space: Space::Arena, offset: 0, bytes: rows * row_bytes };
                    let output = Output { place, rows, row_bytes, split };
                    let mut count = vec![0; rows * row_bytes];
                    for share in 0..shares {
                        let (r, c) = Share::cut(&output, share, shares);
                        for i in r.flat_map(|r| c.clone().map(move |c| r * row_bytes + c)) {
                            count[i] += 1;
                        }
                    }
                    assert_eq!(count, vec![1; rows * row_bytes], "{split:?} {rows} {row_bytes}");
                }
            }
        }
    }
}
