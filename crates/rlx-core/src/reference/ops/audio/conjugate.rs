//! Conjugates.

use super::fft::{bytes, rows};
use crate::error::Result;
use crate::ops::Conjugate;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Conjugate {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("conjugate")) };
        let mut rows = rows(x)?;
        rows.iter_mut().flatten().for_each(|v| v.1 = -v.1);
        Ok(vec![bytes(x.ty, &rows)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Conjugate;
    use crate::reference::testing::*;
    use crate::types::{DType, Scalar};

    #[test]
    fn imaginary_parts_change_sign_in_both_layouts() {
        let pairs = f32s(&[2, 2], &[1.0, 2.0, 3.0, -4.0]);
        assert_eq!(run1(Conjugate, &[&pairs]), [1.0, -2.0, 3.0, 4.0]);
        let complex = |x: &[f32]| floats(DType::Scalar(Scalar::C64), &[2], x);
        let y = run(Conjugate, &[&complex(&[1.0, 2.0, 3.0, -4.0])]);
        assert_eq!(y[0], complex(&[1.0, -2.0, 3.0, 4.0]));
    }

    #[test]
    fn integers_are_refused() {
        let e = fails(Conjugate, &[&u32s(&[2], &[0, 0])]);
        assert!(e.what.starts_with("conjugate: x is tensor<2xu32>, expected rows of c64"), "{e}");
    }
}
