//! Rows of a table.

use super::view::f32_bytes;
use super::{View, arity};
use crate::error::{Error, Result};
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [table, ids] = operands else { return Err(arity("gather")) };
    let [rows, width] = table.dims()?;
    let ids = ids.words();
    let Some(last) = rows.checked_sub(1) else {
        return Err(Error::bad_graph("gather: the table has no rows"));
    };
    let mut out = vec![0.0; ids.len() * width];
    for (i, id) in ids.into_iter().enumerate() {
        table.row((id as usize).min(last), &mut out[i * width..][..width])?;
    }
    Ok(vec![f32_bytes(&out)])
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::ops::Gather;

    #[test]
    fn rows_are_looked_up_and_an_id_past_the_end_reads_the_last() {
        let table = f32s(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let y = run1(Gather, &[&table, &u32s(&[3], &[2, 0, 99])]);
        assert_eq!(y, [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    }

    #[test]
    fn a_packed_table_is_decoded_by_rows() {
        let x: alloc::vec::Vec<f32> = (0..64).map(|i| (i as f32 - 31.0) * 2.0).collect();
        let packed = q8_0(&[2, 32], &x);
        let y = run1(Gather, &[&packed, &u32s(&[1], &[1])]);
        for (y, x) in y.iter().zip(&x[32..]) {
            assert!((y - x).abs() <= 64.0 / 127.0, "{y} {x}");
        }
    }

    #[test]
    fn an_empty_table_is_an_error() {
        let e = fails(Gather, &[&f32s(&[0, 2], &[]), &u32s(&[1], &[0])]);
        assert_eq!(e.what, "gather: the table has no rows");
    }
}
