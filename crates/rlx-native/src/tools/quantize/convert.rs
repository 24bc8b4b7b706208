//! Rows of one type into rows of another, on several threads.

use rlx_core::formats::decode_row;
use rlx_core::formats::encode::encode_row;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use std::sync::{Mutex, PoisonError};

/// Elements of the rows that a thread takes at once.
const TAKEN: usize = 1 << 16;

/// Rows of one tensor and what they become.
pub struct Rows {
    /// Elements of a row.
    pub elements: usize,
    pub from: DType,
    pub to: DType,
    /// Bytes of a row before and after.
    pub bytes: (usize, usize),
}

impl Rows {
    /// Rows of `row` elements of the tensor of that name.
    ///
    /// # Errors
    /// `Unsupported` for rows that blocks of either type do not fill.
    pub fn of(name: &str, row: u64, from: DType, to: DType) -> Result<Rows> {
        let bytes = |dtype: DType| dtype.row_bytes(row).and_then(|n| usize::try_from(n).ok());
        match (usize::try_from(row).ok(), bytes(from), bytes(to)) {
            (Some(elements), Some(before), Some(after)) if before > 0 && after > 0 => {
                Ok(Rows { elements, from, to, bytes: (before, after) })
            }
            _ => Err(Error::new(
                Code::Unsupported,
                format!("tensor {name} has rows of {row} elements, which {to} does not hold"),
            )),
        }
    }

    /// Converts `input`, whole rows, into `out`. Which thread takes which rows makes no difference to
    /// the bytes.
    ///
    /// # Errors
    /// As [`decode_row`] and [`encode_row`]: the first row's that has one.
    pub fn convert(&self, input: &[u8], out: &mut [u8], threads: usize) -> Result<()> {
        let rows = (TAKEN / self.elements.max(1)).max(1);
        let pieces =
            input.chunks(rows * self.bytes.0).zip(out.chunks_mut(rows * self.bytes.1)).enumerate();
        let work = Mutex::new(pieces);
        let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        let taken = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
        let worker = || {
            let mut row = vec![0.0f32; self.elements];
            while let Some((i, (input, out))) = taken() {
                let Err(error) = self.piece(input, out, &mut row) else { continue };
                let mut first = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|(at, _)| i < *at) {
                    *first = Some((i, error));
                }
                return;
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(worker);
            }
            worker();
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    fn piece(&self, input: &[u8], out: &mut [u8], row: &mut [f32]) -> Result<()> {
        let rows = input.chunks_exact(self.bytes.0).zip(out.chunks_exact_mut(self.bytes.1));
        for (input, out) in rows {
            decode_row(self.from, input, row)?;
            encode_row(self.to, row, out)?;
        }
        Ok(())
    }
}
