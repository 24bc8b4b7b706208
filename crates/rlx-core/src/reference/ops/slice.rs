//! A range of one axis.

use crate::error::{Error, Result};
use crate::ops::Slice;
use crate::reference::index::{around, room, sizes, step_bytes};
use crate::reference::{Run, View, arity};
use crate::types::Dim;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Run for Slice {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("slice")) };
        let bound = |d: &Dim| {
            d.as_static()
                .and_then(|n| usize::try_from(n).ok())
                .ok_or_else(|| Error::bad_graph(format!("slice: the size {d} is unbound")))
        };
        let (start, len) = (bound(&self.start)?, bound(&self.len)?);
        let (outer, n, _) = around(&sizes(&x.ty.shape)?, self.axis)?;
        let step = step_bytes(x.ty, self.axis)?;
        let mut out = room(outer.saturating_mul(len).saturating_mul(step))?;
        if x.bytes.is_empty() {
            return Ok(vec![out]);
        }
        for o in 0..outer {
            for i in 0..len {
                // The type rule has checked that every index is one of the axis.
                let at = (start as i64).wrapping_add((i as i64).wrapping_mul(self.step)) as usize;
                out.extend_from_slice(&x.bytes[(o * n + at) * step..][..step]);
            }
        }
        Ok(vec![out])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Alias, Operator, Slice};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::{Binding, DType, Dim};

    fn slice(axis: usize, start: u64, len: u64, step: i64) -> Slice {
        Slice { axis, start: start.into(), len: len.into(), step }
    }

    #[test]
    fn a_range_forwards_in_steps_and_backwards() {
        let x = f32s(&[5], &[0.0, 1.0, 2.0, 3.0, 4.0]);
        let y = |start, len, step| run1(slice(0, start, len, step), &[&x]);
        assert_eq!(y(1, 3, 1), [1.0, 2.0, 3.0]);
        assert_eq!(y(0, 3, 2), [0.0, 2.0, 4.0]);
        assert_eq!(y(4, 5, -1), [4.0, 3.0, 2.0, 1.0, 0.0]);
        assert_eq!(y(4, 2, -3), [4.0, 1.0]);
        assert_eq!(y(3, 1, i64::MIN), [3.0]);
        assert!(y(5, 0, 1).is_empty() && y(0, 0, -1).is_empty());
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(run1(slice(1, 2, 2, -1), &[&x]), [3.0, 2.0, 6.0, 5.0]);
        assert_eq!(run1(slice(0, 1, 1, 1), &[&x]), [4.0, 5.0, 6.0]);
        assert!(run1(slice(1, 0, 2, 1), &[&f32s(&[0, 3], &[])]).is_empty());
    }

    #[test]
    fn packed_rows_are_taken_whole() {
        let x = noise(96, 11);
        let packed = q8_0(&[3, 32], &x);
        let y = run(slice(0, 2, 2, -1), &[&packed]).remove(0);
        assert_eq!(y.bytes[..34], packed.bytes[68..]);
        assert_eq!(y.bytes[34..], packed.bytes[34..68]);
        assert_eq!(
            refuses(slice(1, 0, 32, 1), &["3x64xq8_0"]),
            "slice: x is tensor<3x64xq8_0>, packed rows stay whole"
        );
    }

    #[test]
    fn an_index_outside_is_refused_and_nothing_overflows() {
        assert_eq!(
            refuses(slice(1, 1, 3, 1), &["2x3xf32"]),
            "slice: x is tensor<2x3xf32>, axis 1 has no 3 elements from 1 in steps of 1"
        );
        for (start, len, step) in [
            (0, 1, 0),
            (4, 0, 1),
            (0, 2, -1),
            (2, 2, i64::MIN),
            (2, 2, i64::MAX),
            (u64::MAX, 1, 1),
            (0, u64::MAX, 1),
            (0, u64::MAX, i64::MAX),
        ] {
            let what = refuses(slice(0, start, len, step), &["3xf32"]);
            assert!(what.contains("tensor<3xf32>"), "{what}");
        }
        assert_eq!(
            refuses(slice(1, 0, 1, 1), &["2xf32"]),
            "slice: x is tensor<2xf32>, it has no axis 1"
        );
    }

    #[test]
    fn sizes_may_be_symbols_until_they_are_bound() {
        let mut op =
            Slice { axis: 0, start: Dim::symbol("PAST_SEQ"), len: Dim::symbol("SEQ"), step: 1 };
        assert_eq!(gives(op.clone(), &["8x4xf32"]), ["tensor<SEQx4xf32>"]);
        assert_eq!(text(op.clone(), &["8x4xf32"]), "slice {axis = 0, start = PAST_SEQ, len = SEQ}");
        assert_eq!(
            text(slice(0, 3, 2, -1), &["8xf32"]),
            "slice {axis = 0, start = 3, len = 2, step = -1}"
        );
        op.bind(&Binding::from([("SEQ".into(), 4), ("PAST_SEQ".into(), 5)])).unwrap();
        assert!(refuses(op, &["8x4xf32"]).contains("no 4 elements from 5"));
        let state = gives(slice(0, 0, 2, 1), &["state 4x2xf16"]);
        assert_eq!(state, ["tensor<2x2xf16>"], "a state may be read");
    }

    #[test]
    fn a_run_of_the_outermost_axis_is_a_view() {
        let alias = |op: Slice, x| op.alias(&[&ty(x)]);
        let view = |byte_offset| Alias::View { operand: 0, byte_offset };
        assert_eq!(alias(slice(0, 1, 2, 1), "3x4xf32"), view(16));
        assert_eq!(alias(slice(1, 2, 1, 1), "1x3x5xf16"), view(20));
        assert_eq!(alias(slice(0, 2, 1, 1), "3xf32"), view(8));
        assert_eq!(alias(slice(0, 2, 1, 1), "3x64xq8_0"), view(136));
        assert_eq!(alias(slice(0, 0, 1, 1), "3xSEQxf32"), view(0));
        assert_eq!(alias(slice(1, 0, 4, 1), "3x4xf32"), view(0), "all of an axis");
        assert_eq!(alias(slice(0, 1, 1, 1), "3xSEQxf32"), Alias::None);
        assert_eq!(alias(slice(1, 0, 2, 1), "3x4xf32"), Alias::None);
        assert_eq!(alias(slice(0, 2, 2, -1), "3x4xf32"), Alias::None);
        assert_eq!(alias(slice(0, 1, 1, 1), "3x1xf16"), Alias::None, "2 is no multiple of 4 bytes");
        let huge = Slice { axis: 0, start: Dim::from(1u64 << 62), len: 1u64.into(), step: 1 };
        assert_eq!(huge.alias(&[&ty("SEQx8xf32")]), Alias::None, "the place overflows");
    }

    #[test]
    fn integers_of_any_size_are_moved() {
        for (dtype, x) in [(DType::I64, i64::MIN), (DType::BOOL, 1), (DType::U32, 0xffff_ffff)] {
            assert_eq!(run_ints(slice(0, 1, 1, 1), &[&integers(dtype, &[2], &[0, x])]), [x]);
        }
    }
}
