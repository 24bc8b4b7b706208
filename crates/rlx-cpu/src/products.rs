//! Matrix products outside a program: what `benches/kernels` times.

use crate::aligned_bytes::AlignedBytes;
use crate::kernels::int8::Rows;
use crate::kernels::weights::{Scratch, Weight, X};
use crate::panel::{Cut, ROWS};
use crate::simd::Level;
use core::ops::Range;
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Error, Result};

/// A weight `[n, k]` in panels.
pub struct Matrix {
    weight: Weight,
    n: usize,
    k: usize,
    bytes: AlignedBytes,
}

/// Rows of x for [`Matrix::multiply`].
pub struct Activations {
    m: usize,
    k: usize,
    rows: Form,
}

enum Form {
    F32(Vec<f32>),
    Int8(BlockFormat, Box<Rows>),
}

impl Activations {
    /// `[m, k]` in f32.
    ///
    /// # Errors
    /// `Usage` for a length that is no whole rows.
    pub fn f32(k: usize, x: &[f32]) -> Result<Self> {
        if k == 0 || !x.len().is_multiple_of(k) {
            return Err(Error::usage(format!("{} elements are no rows of {k}", x.len())));
        }
        Ok(Self { m: x.len() / k, k, rows: Form::F32(x.to_vec()) })
    }

    /// Rows of `q8_0` or `q15_0` blocks, as `quantize_rows` makes them.
    ///
    /// # Errors
    /// `Usage` for another format, or a length that is no whole rows.
    pub fn int8(format: BlockFormat, k: usize, x: &[u8]) -> Result<Self> {
        let row = DType::Block(format).row_bytes(k as u64).unwrap_or(0) as usize;
        let known = matches!(format, BlockFormat::Q8_0 | BlockFormat::Q15_0);
        if !known || row == 0 || !x.len().is_multiple_of(row) {
            return Err(Error::usage(format!(
                "{} bytes are no rows of {k} in {}",
                x.len(),
                format.name()
            )));
        }
        let mut rows = Rows::default();
        rows.fill(Level::detect(), format, k, x);
        Ok(Self { m: x.len() / row, k, rows: Form::Int8(format, Box::new(rows)) })
    }
}

impl Activations {
    /// Elements of a row.
    pub fn k(&self) -> usize {
        self.k
    }
}

impl Matrix {
    /// Arranges rows as a file has them.
    ///
    /// # Errors
    /// `Unsupported` for a type without kernels, `Usage` for a wrong length.
    pub fn new(dtype: DType, n: usize, k: usize, rows: &[u8]) -> Result<Matrix> {
        let weight = Weight::new(dtype, n, k)?;
        let row_bytes = dtype.row_bytes(k as u64).unwrap_or(0) as usize;
        if rows.len() != n * row_bytes {
            return Err(Error::usage(format!(
                "{} bytes are not {n} rows of {k} {dtype}",
                rows.len()
            )));
        }
        let mut bytes = AlignedBytes::new(rows.len())?;
        Cut::of(dtype).arrange(rows, row_bytes, bytes.bytes_mut());
        Ok(Matrix { weight, n, k, bytes })
    }

    /// The int8 blocks that meet this weight in integers, if any do.
    pub fn int8(&self) -> Option<BlockFormat> {
        Some(BlockFormat::Q8_0).filter(|b| self.weight.meets(*b))
    }

    /// `y[m][rows]`: products of these rows, of whole panels but for the last, with every row of x.
    ///
    /// # Errors
    /// `Usage` for rows, x or y that do not fit; `Unsupported` for a level that is not there.
    pub fn multiply(
        &self,
        level: Level,
        rows: Range<usize>,
        x: &Activations,
        y: &mut [f32],
    ) -> Result<()> {
        if !level.is_available() {
            return Err(Error::new(
                rlx_core::Code::Unsupported,
                format!("no {} here", level.name()),
            ));
        }
        let fits = rows.start.is_multiple_of(ROWS)
            && (rows.end == self.n || rows.end.is_multiple_of(ROWS) && rows.end < self.n)
            && rows.start <= rows.end
            && x.k == self.k
            && y.len() == x.m * rows.len();
        let xs = match &x.rows {
            Form::F32(x) => X::F32(x),
            Form::Int8(b, x) if self.weight.meets(*b) => X::Int8(x),
            Form::Int8(b, _) => {
                return Err(Error::usage(format!("the weight meets no {}", b.name())));
            }
        };
        if !fits {
            return Err(Error::usage("rows, x and y do not fit the weight"));
        }
        let mut scratch = Scratch::default();
        // One row of x runs through all weights; several meet a few panels.
        let width = if x.m == 1 { rows.len().max(1) } else { xs.columns() };
        for start in rows.clone().step_by(width) {
            let n = start..(start + width).min(rows.end);
            let mut out = vec![0.0; x.m * n.len().next_multiple_of(ROWS)];
            self.weight.multiply(
                level,
                self.bytes.bytes(),
                true,
                n.clone(),
                xs,
                x.m,
                &mut scratch,
                &mut out,
            );
            let run = xs.run(x.m, n.len());
            for (start, out) in n.clone().step_by(run).zip(out.chunks_exact((x.m * run).max(1))) {
                let to = start - rows.start..(start + run).min(n.end) - rows.start;
                for (y, out) in y.chunks_exact_mut(rows.len()).zip(out.chunks_exact(run)) {
                    y[to.clone()].copy_from_slice(&out[..to.len()]);
                }
            }
        }
        Ok(())
    }
}
