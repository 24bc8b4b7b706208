//! The same numbers in another element type.

use crate::error::Result;
use crate::math::to_odd_f64;
use crate::ops::Cast;
use crate::reference::view::{int_bytes, scalar_bytes};
use crate::reference::{Run, View, arity};
use crate::types::{DType, Scalar};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Cast {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("cast")) };
        let complex = DType::Scalar(Scalar::C64);
        let y = match (x.ty.dtype, self.to) {
            (from, to) if from == to => x.bytes.to_vec(),
            (from, to) if from == complex => {
                let real: Vec<f64> = x.f64s()?.chunks(2).map(|pair| pair[0]).collect();
                scalar_bytes(to, &real)?
            }
            (_, to) if to == complex => {
                let pairs: Vec<f64> = x.f64s()?.into_iter().flat_map(|v| [v, 0.0]).collect();
                scalar_bytes(to, &pairs)?
            }
            (from, to) if from.is_float() => scalar_bytes(to, &x.f64s()?)?,
            (_, DType::F64) => {
                let exact: Vec<f64> = x.i64s()?.into_iter().map(|v| v as f64).collect();
                scalar_bytes(DType::F64, &exact)?
            }
            (_, to) if to.is_float() => {
                let odd: Vec<f64> = x.i64s()?.into_iter().map(to_odd_f64).collect();
                scalar_bytes(to, &odd)?
            }
            (_, to) => int_bytes(to, &x.i64s()?)?,
        };
        Ok(vec![y])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Alias, Cast, Operator};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::{DType, Scalar, Shape, Type};

    const I8: DType = DType::Scalar(Scalar::I8);
    const U8: DType = DType::Scalar(Scalar::U8);
    const C64: DType = DType::Scalar(Scalar::C64);

    #[test]
    fn floats_round_once_to_the_even_neighbour() {
        let y = |from, x: f64, to| run_f64s(Cast { to }, &[&numbers(from, &[1], &[x])])[0];
        assert_eq!(y(DType::F32, 2049.0, DType::F16), 2048.0);
        assert_eq!(y(DType::F32, 65520.0, DType::F16), f64::INFINITY);
        assert_eq!(
            y(DType::F64, 1.0 + 2f64.powi(-11) + 2f64.powi(-40), DType::F16),
            1.0 + 2f64.powi(-10)
        );
        assert_eq!(
            y(DType::F64, 1.0 + 2f64.powi(-8) + 2f64.powi(-50), DType::BF16),
            1.0 + 2f64.powi(-7)
        );
        assert_eq!(y(DType::F32, f64::from(f32::MAX), DType::BF16), f64::INFINITY);
        assert_eq!(y(DType::F16, 2f64.powi(-24), DType::F32), 2f64.powi(-24));
        assert!(y(DType::F32, f64::NAN, DType::F16).is_nan());
        assert!(y(DType::F32, -0.0, DType::BF16).is_sign_negative());
    }

    #[test]
    fn integers_round_once_to_floats() {
        let n = (1i64 << 60) + (1 << 36) + 1;
        let y = |to| run_f64s(Cast { to }, &[&integers(DType::I64, &[1], &[n])])[0];
        assert_eq!(y(DType::F32), f64::from(n as f32));
        assert_eq!(y(DType::F64), n as f64);
        assert_eq!(y(DType::F16), f64::INFINITY);
    }

    #[test]
    fn floats_are_cut_off_and_saturate() {
        let x = f32s(&[6], &[-1.9, 1.9, 3e9, -3e9, f32::NAN, f32::INFINITY]);
        let y = |to| run_ints(Cast { to }, &[&x]);
        let (least, most) = (i32::MIN.into(), i32::MAX.into());
        assert_eq!(y(DType::I32), [-1, 1, most, least, 0, most]);
        assert_eq!(y(DType::U32), [0, 1, 3_000_000_000, 0, 0, u32::MAX.into()]);
        assert_eq!(y(I8), [-1, 1, 127, -128, 0, 127]);
        assert_eq!(y(DType::I64), [-1, 1, 3_000_000_000, -3_000_000_000, 0, i64::MAX]);
        assert_eq!(y(DType::BOOL), [1, 1, 1, 1, 1, 1]);
        assert_eq!(run_ints(Cast { to: DType::BOOL }, &[&f32s(&[2], &[0.0, -0.0])]), [0, 0]);
    }

    #[test]
    fn integers_keep_their_low_bits() {
        let x = integers(DType::I64, &[3], &[-1, (1 << 40) + 5, 300]);
        let y = |to| run_ints(Cast { to }, &[&x]);
        assert_eq!(y(DType::U32), [u32::MAX.into(), 5, 300]);
        assert_eq!(y(DType::I32), [-1, 5, 300]);
        assert_eq!(y(U8), [255, 5, 44]);
        assert_eq!(y(I8), [-1, 5, 44]);
        assert_eq!(y(DType::BOOL), [1, 1, 1]);
        let bools = integers(DType::BOOL, &[2], &[0, 1]);
        assert_eq!(run1(Cast { to: DType::F32 }, &[&bools]), [0.0, 1.0]);
    }

    #[test]
    fn complex_numbers_have_a_real_part() {
        let z = Value {
            ty: Type::tensor(C64, Shape::of(&[2])),
            bytes: f32s(&[4], &[1.0, 2.0, 3.0, 4.0]).bytes,
        };
        assert_eq!(run1(Cast { to: DType::F32 }, &[&z]), [1.0, 3.0]);
        let back = run(Cast { to: C64 }, &[&f32s(&[2], &[5.0, 6.0])]).remove(0);
        assert_eq!(back.f64s(), [5.0, 0.0, 6.0, 0.0]);
        assert_eq!(
            refuses(Cast { to: DType::I32 }, &["2xc64"]),
            "cast: x is tensor<2xc64>, it has no form in i32"
        );
        assert!(refuses(Cast { to: C64 }, &["2xbool"]).contains("no form in c64"));
    }

    #[test]
    fn the_same_type_is_a_view_and_one_of_the_same_size_in_place() {
        let alias = |to| Cast { to }.alias(&[&ty("2xf32")]);
        assert_eq!(alias(DType::F32), Alias::View { operand: 0, byte_offset: 0 });
        assert_eq!(alias(DType::I32), Alias::Elementwise { operand: 0 });
        assert_eq!(alias(DType::F16), Alias::None);
        assert_eq!(gives(Cast { to: DType::BF16 }, &["SEQxu8"]), ["tensor<SEQxbf16>"]);
        assert!(refuses(Cast { to: DType::F32 }, &["32xq8_0"]).contains("tensor<32xq8_0>"));
        assert_eq!(text(Cast { to: DType::F16 }, &["2xf32"]), "cast {to = f16}");
    }
}
