//! Indices of an axis; rows of a table.

use crate::error::{Error, Result};
use crate::ops::Gather;
use crate::reference::index::{around, place, room, sizes, step_bytes};
use crate::reference::view::f32_bytes;
use crate::reference::{Run, View, arity};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Run for Gather {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [table, ids] = operands else { return Err(arity("gather")) };
        let ids = ids.i64s()?;
        let (outer, n, _) = around(&sizes(&table.ty.shape)?, self.axis)?;
        let Some(last) = n.checked_sub(1) else {
            let what = if self.axis == 0 {
                "rows".into()
            } else {
                format!("elements on axis {}", self.axis)
            };
            return Err(Error::bad_graph(format!("gather: the table has no {what}")));
        };
        let index = |id: i64| (place(id, n).max(0) as usize).min(last);
        if self.is_embedding(table.ty) {
            let [_, width] = table.dims()?;
            let mut out = crate::reference::index::filled(ids.len().saturating_mul(width), 0.0)?;
            for (i, &id) in ids.iter().enumerate() {
                table.row(index(id), &mut out[i * width..][..width])?;
            }
            return Ok(vec![f32_bytes(&out)]);
        }
        let step = step_bytes(table.ty, self.axis)?;
        let mut out = room(outer.saturating_mul(ids.len()).saturating_mul(step))?;
        for o in 0..outer {
            for &id in &ids {
                out.extend_from_slice(&table.bytes[(o * n + index(id)) * step..][..step]);
            }
        }
        Ok(vec![out])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Gather;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    const ROWS: Gather = Gather { axis: 0 };

    #[test]
    fn rows_are_looked_up_and_an_id_past_the_end_reads_the_last() {
        let table = f32s(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let y = run1(ROWS, &[&table, &u32s(&[3], &[2, 0, 99])]);
        assert_eq!(y, [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
        let signed = integers(DType::I32, &[4], &[-1, -3, -99, i32::MIN.into()]);
        assert_eq!(run1(ROWS, &[&table, &signed])[..], [5.0, 6.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
        let long = integers(DType::I64, &[3], &[1 << 40, i64::MAX, i64::MIN]);
        assert_eq!(run1(ROWS, &[&table, &long]), [5.0, 6.0, 5.0, 6.0, 1.0, 2.0]);
    }

    #[test]
    fn a_packed_table_is_decoded_by_rows() {
        let x: alloc::vec::Vec<f32> = (0..64).map(|i| (i as f32 - 31.0) * 2.0).collect();
        let packed = q8_0(&[2, 32], &x);
        let y = run1(ROWS, &[&packed, &u32s(&[1], &[1])]);
        for (y, x) in y.iter().zip(&x[32..]) {
            assert!((y - x).abs() <= 64.0 / 127.0, "{y} {x}");
        }
    }

    #[test]
    fn ids_of_any_shape_stand_for_any_axis() {
        let table = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let ids = u32s(&[2, 1], &[2, 0]);
        assert_eq!(run1(Gather { axis: 1 }, &[&table, &ids]), [3.0, 1.0, 6.0, 4.0]);
        assert_eq!(run1(ROWS, &[&table, &u32s(&[], &[1])]), [4.0, 5.0, 6.0]);
        assert_eq!(
            run_ints(ROWS, &[&integers(DType::I64, &[2], &[i64::MIN, 7]), &ids]),
            [7, i64::MIN]
        );
        assert!(run1(ROWS, &[&table, &u32s(&[0], &[])]).is_empty());
        assert!(run1(ROWS, &[&f32s(&[2, 0], &[]), &ids]).is_empty());
    }

    #[test]
    fn an_embedding_is_f32_and_other_tables_keep_their_type() {
        assert_eq!(gives(ROWS, &["32000x64xq4_k", "SEQxu32"]), ["tensor<SEQx64xf32>"]);
        assert_eq!(gives(ROWS, &["10x4xf16", "2xSEQxi64"]), ["tensor<2xSEQx4xf32>"]);
        assert_eq!(gives(ROWS, &["10x4xf64", "2xu32"]), ["tensor<2x4xf64>"]);
        assert_eq!(gives(ROWS, &["10x4x2xf16", "2xu32"]), ["tensor<2x4x2xf16>"]);
        assert_eq!(gives(Gather { axis: 1 }, &["10x4xf16", "u32"]), ["tensor<10xf16>"]);
        assert_eq!(text(ROWS, &["4x2xf32", "3xu32"]), "gather");
        assert_eq!(text(Gather { axis: 1 }, &["4x2xf32", "3xu32"]), "gather {axis = 1}");
    }

    #[test]
    fn other_operands_are_refused_by_name() {
        assert_eq!(
            refuses(ROWS, &["4x2xf32", "3xf32"]),
            "gather: ids is tensor<3xf32>, expected a tensor of u32, i32 or i64"
        );
        assert_eq!(
            refuses(Gather { axis: 1 }, &["4x32xq8_0", "3xu32"]),
            "gather: table is tensor<4x32xq8_0>, expected a tensor, and rows of a matrix where it is packed"
        );
        assert_eq!(
            refuses(Gather { axis: 2 }, &["4x2xf32", "3xu32"]),
            "gather: x is tensor<4x2xf32>, it has no axis 2"
        );
        assert!(refuses(ROWS, &["state 4x2xf32", "3xu32"]).contains("state<4x2xf32>"));
    }

    #[test]
    fn an_empty_table_is_an_error() {
        let e = fails(ROWS, &[&f32s(&[0, 2], &[]), &u32s(&[1], &[0])]);
        assert_eq!(e.what, "gather: the table has no rows");
        let e = fails(Gather { axis: 1 }, &[&f32s(&[2, 0], &[]), &u32s(&[1], &[0])]);
        assert_eq!(e.what, "gather: the table has no elements on axis 1");
    }
}
