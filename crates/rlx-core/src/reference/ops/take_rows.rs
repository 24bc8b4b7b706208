//! The last real rows.

use crate::error::{Error, Result};
use crate::ops::TakeRows;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for TakeRows {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, ctl] = operands else { return Err(arity("take_rows")) };
        let [have, width] = x.dims()?;
        let rows =
            self.rows.as_static().ok_or_else(|| Error::bad_graph("take_rows: rows is unbound"))?;
        let rows = rows as usize; // the type rule says at most as many as x has
        let row_bytes = width * x.ty.dtype.block_bytes();
        let len = (ctl.control()?.len as usize).min(have);
        let mut out = Vec::with_capacity(rows * row_bytes);
        for i in 0..rows {
            let row = (len + i).saturating_sub(rows);
            out.extend_from_slice(&x.bytes[row * row_bytes..][..row_bytes]);
        }
        Ok(vec![out])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::TakeRows;
    use crate::reference::testing::*;

    #[test]
    fn rows_before_len_are_taken_and_rows_before_the_first_are_row_0() {
        let x = f32s(&[4, 1], &[10.0, 11.0, 12.0, 13.0]);
        let take =
            |rows: u64, len| run1(TakeRows { rows: rows.into() }, &[&x, &control(5, len, 0)]);
        assert_eq!(take(1, 3), [12.0]);
        assert_eq!(take(1, 4), [13.0]);
        assert_eq!(take(2, 3), [11.0, 12.0]);
        assert_eq!(take(4, 4), [10.0, 11.0, 12.0, 13.0]);
        assert_eq!(take(3, 1), [10.0, 10.0, 10.0]);
        assert_eq!(take(1, 0), [10.0]);
        assert!(take(0, 2).is_empty());
    }

    #[test]
    fn rows_of_half_floats_are_copied_as_they_are() {
        let x = halfs(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let y = &run(TakeRows { rows: 1u64.into() }, &[&x, &control(0, 2, 0)])[0];
        assert_eq!(*y, halfs(&[1, 2], &[3.0, 4.0]));
    }
}
