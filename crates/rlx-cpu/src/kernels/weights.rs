//! A weight as products read it: panels where the device has arranged it so, else rows that are packed
//! to a panel on the way.

use super::dense::{self, Bf16, F16, F32, Panels, Rows, Sums};
use super::int8;
use crate::formats::*;
use crate::panel::{Cut, ROWS};
use crate::simd::Level;
use core::ops::Range;
use rlx_core::types::{BlockFormat as B, DType, Scalar};
use rlx_core::{Code, Error, Result};

/// Every packed format with its program.
macro_rules! by_format {
    ($format:expr, $f:ident => $call:expr, else $otherwise:expr) => {
        match $format {
            B::Q4_0 => {
                type $f = Q4_0;
                $call
            }
            B::Q4_1 => {
                type $f = Q4_1;
                $call
            }
            B::Q5_0 => {
                type $f = Q5_0;
                $call
            }
            B::Q5_1 => {
                type $f = Q5_1;
                $call
            }
            B::Q8_0 => {
                type $f = Q8_0;
                $call
            }
            B::Q2K => {
                type $f = Q2K;
                $call
            }
            B::Q3K => {
                type $f = Q3K;
                $call
            }
            B::Q4K => {
                type $f = Q4K;
                $call
            }
            B::Q5K => {
                type $f = Q5K;
                $call
            }
            B::Q6K => {
                type $f = Q6K;
                $call
            }
            B::Iq4Nl => {
                type $f = Iq4Nl;
                $call
            }
            B::Iq4Xs => {
                type $f = Iq4Xs;
                $call
            }
            B::Mxfp4 => {
                type $f = Mxfp4;
                $call
            }
            B::Nvfp4 => {
                type $f = Nvfp4;
                $call
            }
            B::Q1_0 => {
                type $f = Q1_0;
                $call
            }
            B::Q2_0 => {
                type $f = Q2_0;
                $call
            }
            B::Tq1_0 => {
                type $f = Tq1_0;
                $call
            }
            B::Tq2_0 => {
                type $f = Tq2_0;
                $call
            }
            B::Iq1S => {
                type $f = Iq1S;
                $call
            }
            B::Iq1M => {
                type $f = Iq1M;
                $call
            }
            B::Iq2Xxs => {
                type $f = Iq2Xxs;
                $call
            }
            B::Iq2Xs => {
                type $f = Iq2Xs;
                $call
            }
            B::Iq2S => {
                type $f = Iq2S;
                $call
            }
            B::Iq3Xxs => {
                type $f = Iq3Xxs;
                $call
            }
            B::Iq3S => {
                type $f = Iq3S;
                $call
            }
            _ => $otherwise,
        }
    };
}

/// `n` rows of `k` elements.
#[derive(Clone, Copy)]
pub(crate) struct Weight {
    dtype: DType,
    n: usize,
    k: usize,
    row_bytes: usize,
}

/// Rows of x.
#[derive(Clone, Copy)]
pub(crate) enum X<'a> {
    /// `[m][k]`.
    F32(&'a [f32]),
    /// Blocks that the weight [`meets`](Weight::meets).
    Int8(&'a int8::Rows),
}

impl X<'_> {
    /// Columns of results that a caller asks for at once, where x has several rows.
    pub(crate) fn columns(self) -> usize {
        match self {
            X::F32(_) => dense::TOGETHER * ROWS,
            X::Int8(_) => ROWS,
        }
    }

    /// Adjacent columns of a row among the sums of `n` columns with `m` rows: all of them, but of int8 x with several
    /// rows those of a panel.
    pub(crate) fn run(self, m: usize, n: usize) -> usize {
        match self {
            X::Int8(_) if m != 1 => ROWS,
            _ => n.next_multiple_of(ROWS).max(ROWS),
        }
    }
}

/// Memory that products reuse.
#[derive(Default)]
pub(crate) struct Scratch {
    panel: Vec<u8>,
    unpacked: int8::Unpacked,
    dense: Vec<f32>,
}

impl Weight {
    /// # Errors
    /// `Unsupported` for a type without kernels.
    pub(crate) fn new(dtype: DType, n: usize, k: usize) -> Result<Weight> {
        let row_bytes = dtype.row_bytes(k as u64).filter(|_| reads(dtype));
        let row_bytes = row_bytes.ok_or_else(|| {
            Error::new(Code::Unsupported, format!("no matmul reads rows of {k} {dtype}"))
        })?;
        Ok(Weight { dtype, n, k, row_bytes: row_bytes as usize })
    }

    /// Whether blocks of x of this format meet the weight in integers.
    pub(crate) fn meets(&self, x: B) -> bool {
        meets(self.dtype, x)
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Products of rows `n`, from a panel's first on, with the first `m` rows of x: `y[m][panel][16]`, but
    /// `y[panel][m][16]` with int8 x. [`X::run`] says which.
    pub(crate) fn multiply(
        &self,
        level: Level,
        bytes: &[u8],
        is_panels: bool,
        n: Range<usize>,
        x: X<'_>,
        m: usize,
        scratch: &mut Scratch,
        y: &mut [f32],
    ) {
        let panel_bytes = ROWS * self.row_bytes;
        // Where whole panels of the weight end, and rows as the file has them begin.
        let whole = if is_panels { n.end.min(self.n / ROWS * ROWS).max(n.start) } else { n.start };
        let mut first = n.start;
        if let (1, X::Int8(x), DType::Block(b)) = (m, x, self.dtype) {
            let panels = &bytes[first * self.row_bytes..whole * self.row_bytes];
            let y = &mut y[..whole - first];
            by_format!(b, F => int8::mat_vec::<F>(level, panels, self.row_bytes, x, 0, y), else {});
            first = whole;
        }
        if let (X::F32(x), DType::Scalar(t)) = (x, self.dtype) {
            let panels = &bytes[first * self.row_bytes..whole * self.row_bytes];
            let sums = Sums::new(y, m).of(0..(whole - first) / ROWS);
            self.floats(level, t, panels, x, m, sums);
            first = whole;
        }
        for start in (first..n.end).step_by(ROWS) {
            let (at, i) = (start * self.row_bytes, (start - n.start) / ROWS);
            if start < whole {
                self.panel(level, &bytes[at..at + panel_bytes], x, m, scratch, i, y);
                continue;
            }
            let end = (start + ROWS).min(self.n) * self.row_bytes;
            let mut panel = core::mem::take(&mut scratch.panel);
            panel.resize(panel_bytes, 0);
            Cut::of(self.dtype).pack(&bytes[at..end], self.row_bytes, &mut panel);
            self.panel(level, &panel, x, m, scratch, i, y);
            scratch.panel = panel;
        }
    }

    /// Products of panels of floats.
    fn floats(&self, level: Level, t: Scalar, panels: &[u8], x: &[f32], m: usize, sums: Sums<'_>) {
        let k = self.k;
        let x = Rows { x, apart: k, k, n: m };
        match t {
            Scalar::F16 => dense::multiply::<F16>(level, Panels::dense::<F16>(panels, k), x, sums),
            Scalar::Bf16 => {
                dense::multiply::<Bf16>(level, Panels::dense::<Bf16>(panels, k), x, sums);
            }
            _ => dense::multiply::<F32>(level, Panels::dense::<F32>(panels, k), x, sums),
        }
    }

    /// Products of one panel, number `i` of those whose sums `y` has.
    fn panel(
        &self,
        level: Level,
        panel: &[u8],
        x: X<'_>,
        m: usize,
        scratch: &mut Scratch,
        i: usize,
        y: &mut [f32],
    ) {
        let y = match x {
            X::F32(_) => y,
            X::Int8(_) => &mut y[i * m * ROWS..][..m * ROWS],
        };
        match (self.dtype, x) {
            (DType::Scalar(t), X::F32(x)) => {
                self.floats(level, t, panel, x, m, Sums::new(y, m).of(i..i + 1));
            }
            (DType::Block(b), X::Int8(x)) if m == 1 => {
                by_format!(b, F => int8::mat_vec::<F>(level, panel, self.row_bytes, x, 0, y), else {});
            }
            (DType::Block(b), X::Int8(x)) => {
                let w = &mut scratch.unpacked;
                by_format!(b, F => int8::unpack::<F>(level, panel, self.k, w), else {});
                int8::multiply(level, w, x, m, y);
            }
            (DType::Block(b), X::F32(x)) => {
                let w = &mut scratch.unpacked;
                by_format!(b, F => int8::unpack::<F>(level, panel, self.k, w), else {});
                scratch.dense.resize(ROWS * self.k, 0.0);
                int8::decode(level, w, &mut scratch.dense);
                let panel = bytemuck::cast_slice(&scratch.dense);
                self.floats(level, Scalar::F32, panel, x, m, Sums::new(y, m).of(i..i + 1));
            }
            (DType::Scalar(_), X::Int8(_)) => {
                debug_assert!(false, "int8 x meets only types of blocks: `meets` says so");
            }
        }
    }
}

/// Whether blocks of x of this format meet weights of this type in integers.
pub(crate) fn meets(weight: DType, x: B) -> bool {
    match weight {
        DType::Block(b) if b.elements() % 32 == 0 => match x {
            B::Q8_0 => true,
            B::Q15_0 => crate::target::INT16,
            _ => false,
        },
        DType::Block(_) => false,
        DType::Scalar(_) => false,
    }
}

/// Whether there are kernels for weights of this type.
pub(crate) fn reads(dtype: DType) -> bool {
    match dtype {
        DType::Scalar(t) => matches!(t, Scalar::F32 | Scalar::F16 | Scalar::Bf16),
        DType::Block(b) => by_format!(b, F => { let _ = F::ELEMENTS; true }, else false),
    }
}
