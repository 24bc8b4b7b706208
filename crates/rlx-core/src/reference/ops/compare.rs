//! A test of two tensors, repeated to one shape.

use crate::error::Result;
use crate::ops::{Compare, Op};
use crate::reference::index::{repeated, sizes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Compare {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [a, b] = operands else { return Err(arity("compare")) };
        let ty = &Op::Compare(self.clone()).infer(&[a.ty, b.ty])?[0];
        let to = sizes(&ty.shape)?;
        let places = repeated(&sizes(&a.ty.shape)?, &to)?.into_iter();
        let places = places.zip(repeated(&sizes(&b.ty.shape)?, &to)?);
        let y: Vec<u8> = if a.ty.dtype.is_float() {
            let (a, b) = (a.f64s()?, b.f64s()?);
            places.map(|(i, j)| self.f.eval(a[i], b[j]).into()).collect()
        } else {
            let (a, b) = (a.i64s()?, b.i64s()?);
            places.map(|(i, j)| self.f.eval(a[i], b[j]).into()).collect()
        };
        Ok(vec![y])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Alias, Compare, Comparison, Operator};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::{DType, Scalar};

    fn holds(f: Comparison, a: &Value, b: &Value) -> alloc::vec::Vec<i64> {
        run_ints(Compare { f }, &[a, b])
    }

    #[test]
    fn every_test_of_less_equal_and_greater() {
        let (a, b) = (f32s(&[3], &[1.0, 2.0, 3.0]), f32s(&[], &[2.0]));
        let expected = [
            (Comparison::Eq, [0, 1, 0]),
            (Comparison::Ne, [1, 0, 1]),
            (Comparison::Lt, [1, 0, 0]),
            (Comparison::Le, [1, 1, 0]),
            (Comparison::Gt, [0, 0, 1]),
            (Comparison::Ge, [0, 1, 1]),
        ];
        for (f, y) in expected {
            assert_eq!(holds(f, &a, &b), y, "{}", f.name());
        }
    }

    #[test]
    fn only_ne_holds_for_a_nan_and_zeros_are_equal() {
        let nan = f32s(&[1], &[f32::NAN]);
        for (f, name) in Comparison::ALL {
            assert_eq!(holds(f, &nan, &nan), [i64::from(f == Comparison::Ne)], "{name}");
        }
        assert_eq!(holds(Comparison::Eq, &f32s(&[1], &[0.0]), &f32s(&[1], &[-0.0])), [1]);
    }

    #[test]
    fn integers_compare_exactly_and_with_their_sign() {
        let big = 1i64 << 53;
        let one = |dtype, x| integers(dtype, &[1], &[x]);
        let i64s = (one(DType::I64, big), one(DType::I64, big + 1));
        assert_eq!(holds(Comparison::Eq, &i64s.0, &i64s.1), [0]);
        assert_eq!(holds(Comparison::Lt, &one(DType::I32, -1), &one(DType::I32, 0)), [1]);
        assert_eq!(holds(Comparison::Lt, &one(DType::U32, -1), &one(DType::U32, 0)), [0]);
        assert_eq!(holds(Comparison::Ne, &one(DType::BOOL, 1), &one(DType::BOOL, 0)), [1]);
    }

    #[test]
    fn the_rule_gives_bools_of_the_repeated_shape() {
        let eq = Compare { f: Comparison::Eq };
        assert_eq!(gives(eq.clone(), &["SEQx1xu32", "4xu32"]), ["tensor<SEQx4xbool>"]);
        assert_eq!(
            refuses(eq.clone(), &["2xf32", "3xf32"]),
            "compare: operands tensor<2xf32>, tensor<3xf32> do not broadcast, on one axis they have 2 and 3"
        );
        assert!(refuses(eq.clone(), &["2xf32", "2xi32"]).contains("expected one element type"));
        assert_eq!(
            refuses(eq.clone(), &["2xc64", "2xc64"]),
            "compare: a is tensor<2xc64>, c64 has no order"
        );
        assert!(refuses(eq.clone(), &["32xq8_0", "32xq8_0"]).contains("tensor<32xq8_0>"));
        let byte = crate::types::Type { dtype: DType::Scalar(Scalar::U8), ..ty("2xbool") };
        assert_eq!(eq.alias(&[&byte, &byte]), Alias::Elementwise { operand: 0 });
        assert_eq!(eq.alias(&[&ty("2xf32"), &ty("2xf32")]), Alias::None);
        for (f, name) in Comparison::ALL {
            assert_eq!(
                text(Compare { f }, &["2xf32", "f32"]),
                alloc::format!("compare {{f = {name}}}")
            );
        }
    }
}
