//! A scalar function of two tensors, repeated to one shape.

use crate::error::{Error, Result};
use crate::ops::{Op, Zip};
use crate::reference::index::{repeated, sizes};
use crate::reference::view::{int_bytes, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Run for Zip {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [a, b] = operands else { return Err(arity("zip")) };
        let ty = &Op::Zip(self.clone()).infer(&[a.ty, b.ty])?[0];
        let to = sizes(&ty.shape)?;
        let places = repeated(&sizes(&a.ty.shape)?, &to)?.into_iter();
        let places = places.zip(repeated(&sizes(&b.ty.shape)?, &to)?);
        if ty.dtype.is_float() {
            let (a, b) = (a.f64s()?, b.f64s()?);
            let y: Vec<f64> = places.map(|(i, j)| self.f.eval(a[i], b[j])).collect();
            return Ok(vec![scalar_bytes(ty.dtype, &y)?]);
        }
        let (a, b) = (a.i64s()?, b.i64s()?);
        let zero = |i| Error::bad_graph(format!("zip: element {i} is divided by 0"));
        let y = places
            .enumerate()
            .map(|(n, (i, j))| self.f.eval_int(a[i], b[j]).ok_or_else(|| zero(n)));
        Ok(vec![int_bytes(ty.dtype, &y.collect::<Result<Vec<i64>>>()?)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Code;
    use crate::ops::{Alias, Binary, Op, Operator, Zip};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::{DType, Scalar};

    const I8: DType = DType::Scalar(Scalar::I8);

    fn zip(f: Binary) -> Zip {
        Zip { f }
    }

    #[test]
    fn tensors_of_one_shape_and_a_row_that_repeats() {
        let a = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let b = f32s(&[2, 2], &[5.0, -6.0, 7.0, -8.0]);
        let row = f32s(&[2], &[10.0, -1.0]);
        let y = |f, b| run1(Zip { f }, &[&a, b]);
        assert_eq!(y(Binary::Add, &b), [6.0, -4.0, 10.0, -4.0]);
        assert_eq!(y(Binary::Sub, &b), [-4.0, 8.0, -4.0, 12.0]);
        assert_eq!(y(Binary::Mul, &row), [10.0, -2.0, 30.0, -4.0]);
        assert_eq!(y(Binary::Max, &row), [10.0, 2.0, 10.0, 4.0]);
        assert_eq!(y(Binary::Min, &row), [1.0, -1.0, 3.0, -1.0]);
        assert_eq!(y(Binary::Div, &row), [0.1, -2.0, 0.3, -4.0]);
    }

    #[test]
    fn shapes_repeat_from_either_side_and_both() {
        assert_eq!(gives(zip(Binary::Add), &["4x1xf32", "3xf32"]), ["tensor<4x3xf32>"]);
        assert_eq!(gives(zip(Binary::Add), &["f32", "SEQx3xf32"]), ["tensor<SEQx3xf32>"]);
        assert_eq!(gives(zip(Binary::Add), &["2*SEQxf16", "1xf16"]), ["tensor<2*SEQxf16>"]);
        assert_eq!(gives(zip(Binary::Add), &["1x0xf32", "5x1xf32"]), ["tensor<5x0xf32>"]);
        let (column, row) = (f32s(&[2, 1], &[10.0, 20.0]), f32s(&[3], &[1.0, 2.0, 3.0]));
        assert_eq!(run1(zip(Binary::Add), &[&column, &row]), [11.0, 12.0, 13.0, 21.0, 22.0, 23.0]);
        assert_eq!(run1(zip(Binary::Sub), &[&row, &column])[3..], [-19.0, -18.0, -17.0]);
    }

    #[test]
    fn shapes_and_types_that_do_not_meet_are_named() {
        assert_eq!(
            refuses(zip(Binary::Add), &["2x3xf32", "2xf32"]),
            "zip: operands tensor<2x3xf32>, tensor<2xf32> do not broadcast, on one axis they have 3 and 2"
        );
        assert_eq!(
            refuses(zip(Binary::Add), &["SEQxf32", "2*SEQxf32"]),
            "zip: operands tensor<SEQxf32>, tensor<2*SEQxf32> do not broadcast, on one axis they have SEQ and 2*SEQ"
        );
        assert_eq!(
            refuses(zip(Binary::Add), &["2xf32", "2xf16"]),
            "zip: operands are tensor<2xf32> and tensor<2xf16>, expected one element type"
        );
        assert_eq!(
            refuses(zip(Binary::Add), &["2xbool", "2xbool"]),
            "zip: a is tensor<2xbool>, expected a tensor of floats or integers"
        );
        assert!(refuses(zip(Binary::Add), &["state 2xf32", "2xf32"]).contains("state<2xf32>"));
        assert_eq!(
            refuses(zip(Binary::Pow), &["2xi32", "2xi32"]),
            "zip: a is tensor<2xi32>, pow is of floats"
        );
        assert_eq!(refuses(zip(Binary::Add), &["2xf32"]), "zip takes 2 operands, got 1");
    }

    #[test]
    fn pow_and_mod_are_those_of_c() {
        let a = f32s(&[5], &[-2.0, -2.0, 0.0, 4.0, -8.0]);
        let b = f32s(&[5], &[3.0, -2.0, 0.0, 0.5, 0.5]);
        let y = run1(zip(Binary::Pow), &[&a, &b]);
        assert_eq!(y[..4], [-8.0, 0.25, 1.0, 2.0]);
        assert!(y[4].is_nan(), "a root of a negative number");
        let a = f32s(&[4], &[5.5, -5.5, 5.5, -6.0]);
        let y = run1(zip(Binary::Mod), &[&a, &f32s(&[4], &[2.0, 2.0, -2.0, 3.0])]);
        assert_eq!(y, [1.5, -1.5, 1.5, 0.0]);
        assert!(y[3].is_sign_negative(), "the sign of a");
    }

    #[test]
    fn a_number_is_larger_and_smaller_than_a_nan() {
        let (nan, one) = (f32s(&[1], &[f32::NAN]), f32s(&[1], &[1.0]));
        for f in [Binary::Max, Binary::Min] {
            assert_eq!(run1(zip(f), &[&nan, &one]), [1.0]);
            assert_eq!(run1(zip(f), &[&one, &nan]), [1.0]);
            assert!(run1(zip(f), &[&nan, &nan])[0].is_nan());
        }
        assert!(run1(zip(Binary::Add), &[&nan, &one])[0].is_nan());
    }

    #[test]
    fn integers_are_exact_and_wrap() {
        let big = (1i64 << 53) + 1;
        let y = |f, dtype, a: i64, b: i64| {
            run_ints(zip(f), &[&integers(dtype, &[1], &[a]), &integers(dtype, &[1], &[b])])[0]
        };
        assert_eq!(y(Binary::Add, DType::I64, big, 2), big + 2);
        assert_eq!(y(Binary::Max, DType::I64, big, big - 1), big);
        assert_eq!(y(Binary::Add, DType::I64, i64::MAX, 1), i64::MIN);
        assert_eq!(y(Binary::Div, DType::I64, i64::MIN, -1), i64::MIN);
        assert_eq!(y(Binary::Mul, DType::U32, 0xffff_ffff, 0xffff_ffff), 1);
        assert_eq!(y(Binary::Sub, DType::U32, 0, 1), 0xffff_ffff);
        assert_eq!(y(Binary::Mul, DType::I32, 1 << 20, 1 << 12), 0);
        assert_eq!(y(Binary::Mul, I8, 100, 2), -56);
        assert_eq!(y(Binary::Div, DType::I32, -7, 2), -3);
        assert_eq!(y(Binary::Mod, DType::I32, -7, 2), -1);
        assert_eq!(y(Binary::Div, DType::U32, 0xffff_fff9, 2), 0x7fff_fffc);
    }

    #[test]
    fn an_integer_divided_by_0_is_an_error() {
        let a = integers(DType::I32, &[3], &[1, 2, 3]);
        let b = integers(DType::I32, &[3], &[1, 0, 0]);
        for f in [Binary::Div, Binary::Mod] {
            let e = fails(zip(f), &[&a, &b]);
            assert_eq!(
                (e.code, e.what.as_str()),
                (Code::BadGraph, "zip: element 1 is divided by 0")
            );
        }
        let y = run1(zip(Binary::Div), &[&f32s(&[2], &[1.0, -1.0]), &f32s(&[], &[0.0])]);
        assert_eq!(y, [f32::INFINITY, f32::NEG_INFINITY]);
    }

    #[test]
    fn halves_round_once() {
        // 1/3 in bf16 from the exact quotient; 2049 + 1 ties to even in f16.
        let y = |dtype, f, a: f64, b: f64| {
            run_f64s(zip(f), &[&numbers(dtype, &[1], &[a]), &numbers(dtype, &[1], &[b])])[0]
        };
        assert_eq!(y(DType::BF16, Binary::Div, 1.0, 3.0), 0.333984375);
        assert_eq!(y(DType::F16, Binary::Add, 2048.0, 1.0), 2048.0);
        assert_eq!(y(DType::F16, Binary::Add, 2048.0, 3.0), 2052.0);
        assert_eq!(y(DType::F64, Binary::Div, 1.0, 3.0), 1.0 / 3.0);
    }

    #[test]
    fn the_result_is_in_place_of_a_where_a_does_not_repeat() {
        let alias = |a, b| zip(Binary::Add).alias(&[&ty(a), &ty(b)]);
        assert_eq!(alias("4x3xf32", "3xf32"), Alias::Elementwise { operand: 0 });
        assert_eq!(alias("3xf32", "4x3xf32"), Alias::None);
        assert_eq!(alias("4x1xf32", "4x3xf32"), Alias::None);
    }

    #[test]
    fn names_are_those_of_the_table() {
        for (f, name) in Binary::ALL {
            assert_eq!(text(zip(f), &["2xf32", "2xf32"]), alloc::format!("zip {{f = {name}}}"));
        }
        assert!(Op::from_text("zip", &crate::ops::Attrs::none().name("f", "plus")).is_err());
    }
}
