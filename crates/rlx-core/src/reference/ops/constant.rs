//! A tensor that the graph holds.

use crate::error::Result;
use crate::ops::Constant;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Constant {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [] = operands else { return Err(arity("constant")) };
        Ok(vec![self.data.to_vec()])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Attr, Attrs, Constant, Op};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::{DType, Scalar, Shape, Type};
    use alloc::vec;

    #[test]
    fn few_numbers_print_as_values_and_read_back() {
        let op = Constant::f32s(&[2, 2], &[1.0, -0.0, 0.1, f32::NEG_INFINITY]).unwrap();
        assert_eq!(
            text(op.clone(), &[]),
            "constant {type = f32, dims = [2, 2], values = [1.0, -0.0, 0.1, -inf]}"
        );
        assert_eq!(run1(op, &[]), [1.0, -0.0, 0.1, f32::NEG_INFINITY]);
        let scalar = |dtype, x| text(Constant::scalar(dtype, x).unwrap(), &[]);
        assert_eq!(
            scalar(DType::F16, 0.1),
            "constant {type = f16, dims = [], values = [0.099975586]}"
        );
        assert_eq!(scalar(DType::I64, -7.0), "constant {type = i64, dims = [], values = [-7]}");
        assert_eq!(scalar(DType::BOOL, 2.0), "constant {type = bool, dims = [], values = [true]}");
        assert_eq!(scalar(DType::F64, 0.1), "constant {type = f64, dims = [], values = [0.1]}");
        assert_eq!(
            scalar(DType::F32, f64::NAN),
            "constant {type = f32, dims = [], values = [NaN]}"
        );
    }

    #[test]
    fn what_would_lose_bits_and_what_is_long_prints_as_bytes() {
        let nan = Constant::new(ty("1xf32"), vec![1, 0, 0xc0, 0x7f]).unwrap();
        assert_eq!(text(nan, &[]), "constant {type = f32, dims = [1], bytes = x0100c07f}");
        let z = Constant::scalar(DType::Scalar(Scalar::C64), 1.0).unwrap();
        assert_eq!(text(z, &[]), "constant {type = c64, dims = [], bytes = x0000803f00000000}");
        let long = Constant::f32s(&[65], &[1.5; 65]).unwrap();
        assert!(text(long, &[]).contains("bytes = x0000c03f0000c03f"));
        let odd = Constant::new(ty("1xbool"), vec![2]).unwrap();
        assert_eq!(text(odd, &[]), "constant {type = bool, dims = [1], bytes = x02}");
        let packed = q8_0(&[1, 32], &noise(32, 3));
        text(Constant::new(packed.ty, packed.bytes).unwrap(), &[]);
        let empty = Constant::f32s(&[0, 3], &[]).unwrap();
        assert_eq!(text(empty, &[]), "constant {type = f32, dims = [0, 3], values = []}");
    }

    #[test]
    fn integers_beyond_2_to_the_53_are_exact() {
        let op = Constant::new(ty("2xi64"), [i64::MAX, i64::MIN].map(i64::to_le_bytes).concat());
        let op = op.unwrap();
        assert!(text(op.clone(), &[]).contains("[9223372036854775807, -9223372036854775808]"));
        assert_eq!(run_ints(op, &[]), [i64::MAX, i64::MIN]);
    }

    #[test]
    fn other_bytes_than_the_type_has_are_refused() {
        let e = Constant::new(ty("2xf32"), vec![0; 7]).unwrap_err();
        assert_eq!(e.what, "constant: tensor<2xf32> has 8 bytes, got 7");
        assert!(Constant::new(ty("SEQxf32"), vec![]).is_err());
        assert!(Constant::new(ty("state 1xu32"), vec![0; 4]).is_err());
        assert!(Constant::f32s(&[u64::MAX, 4], &[]).is_err());
        let read = |name: &str, value| {
            let attrs = Attrs::none().name("type", "u8").dims("dims", &Shape::of(&[1]));
            Op::from_text("constant", &attrs.with(name, value)).unwrap_err().what
        };
        let wrong = "constant: values has what is no element of tensor<1xu8>";
        assert_eq!(read("values", Attr::List(vec![Attr::Int(256)])), wrong);
        assert_eq!(read("values", Attr::List(vec![Attr::Float(1.0)])), wrong);
        for bytes in ["x0", "00", "x0g", "xé0"] {
            let what = read("bytes", Attr::Name(bytes.into()));
            assert!(what.contains("two hexadecimal digits a byte"), "{what}");
        }
        assert!(
            refuses(Constant::f32s(&[1], &[1.0]).unwrap(), &["1xf32"]).contains("takes 0 operands")
        );
        let broken =
            Constant { ty: Type::tensor(DType::F32, Shape::of(&[3])), data: vec![0].into() };
        assert!(refuses(broken, &[]).contains("has 12 bytes, got 1"));
    }
}
