//! Indices of an axis; rows of a table.

use super::index::{around, place, room, sizes, step_bytes};
use super::view::f32_bytes;
use super::{View, arity};
use crate::error::{Error, Result};
use crate::ops::Gather;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Gather, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [table, ids] = operands else { return Err(arity("gather")) };
    let ids = ids.i64s()?;
    let (outer, n, _) = around(&sizes(&table.ty.shape)?, op.axis)?;
    let Some(last) = n.checked_sub(1) else {
        let what =
            if op.axis == 0 { "rows".into() } else { format!("elements on axis {}", op.axis) };
        return Err(Error::bad_graph(format!("gather: the table has no {what}")));
    };
    let index = |id: i64| (place(id, n).max(0) as usize).min(last);
    if op.is_embedding(table.ty) {
        let [_, width] = table.dims()?;
        let mut out = super::index::filled(ids.len().saturating_mul(width), 0.0)?;
        for (i, &id) in ids.iter().enumerate() {
            table.row(index(id), &mut out[i * width..][..width])?;
        }
        return Ok(vec![f32_bytes(&out)]);
    }
    let step = step_bytes(table.ty, op.axis)?;
    let mut out = room(outer.saturating_mul(ids.len()).saturating_mul(step))?;
    for o in 0..outer {
        for &id in &ids {
            out.extend_from_slice(&table.bytes[(o * n + index(id)) * step..][..step]);
        }
    }
    Ok(vec![out])
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::ops::Gather;

    #[test]
    fn rows_are_looked_up_and_an_id_past_the_end_reads_the_last() {
        let table = f32s(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let y = run1(Gather::default(), &[&table, &u32s(&[3], &[2, 0, 99])]);
        assert_eq!(y, [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    }

    #[test]
    fn a_packed_table_is_decoded_by_rows() {
        let x: alloc::vec::Vec<f32> = (0..64).map(|i| (i as f32 - 31.0) * 2.0).collect();
        let packed = q8_0(&[2, 32], &x);
        let y = run1(Gather::default(), &[&packed, &u32s(&[1], &[1])]);
        for (y, x) in y.iter().zip(&x[32..]) {
            assert!((y - x).abs() <= 64.0 / 127.0, "{y} {x}");
        }
    }

    #[test]
    fn an_empty_table_is_an_error() {
        let e = fails(Gather::default(), &[&f32s(&[0, 2], &[]), &u32s(&[1], &[0])]);
        assert_eq!(e.what, "gather: the table has no rows");
    }
}
