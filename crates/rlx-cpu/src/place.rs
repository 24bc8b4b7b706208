//! Where operands and results are in memory, and how a result is cut into shares for workers.

use core::ops::Range;
use rlx_core::ir::lir;

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Entry of the weight plan.
    Weight(usize),
    /// State of the session.
    State(usize),
    /// The session's arena.
    Arena,
    /// Input of the program.
    Input(usize),
}

/// A range of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) space: Space,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl Place {
    pub(crate) fn new(slice: &lir::Slice) -> Place {
        let i = slice.index as usize;
        let space = match slice.space {
            lir::Space::Weight => Space::Weight(i),
            lir::Space::State => Space::State(i),
            lir::Space::Arena => Space::Arena,
            lir::Space::Input => Space::Input(i),
        };
        Place { space, offset: slice.offset as usize, bytes: slice.bytes as usize }
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    pub(crate) fn overlaps(&self, other: &Place) -> bool {
        let (a, b) = (self.range(), other.range());
        self.space == other.space && a.start < b.end && b.start < a.end
    }
}

/// How a result is cut into shares for workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Whole rows.
    Rows,
    /// Columns of every row, in granules of this many bytes.
    Columns(usize),
    /// The whole result as one row, in granules of this many bytes.
    #[cfg_attr(not(feature = "graphs"), allow(dead_code))]
    Flat(usize),
    /// Columns of this many equal rows, in granules of this many bytes.
    #[cfg_attr(not(feature = "graphs"), allow(dead_code))]
    Grid(usize, usize),
    /// Whole runs, of which there are this many of one length.
    #[cfg_attr(not(feature = "graphs"), allow(dead_code))]
    Runs(usize),
    /// The first share has everything.
    First,
}

/// A result: `rows` rows of `row_bytes`, cut as `split` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) place: Place,
    pub(crate) rows: usize,
    pub(crate) row_bytes: usize,
    pub(crate) split: Split,
}
