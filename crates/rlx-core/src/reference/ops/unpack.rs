//! Packed blocks to the numbers they mean.

use crate::error::Result;
use crate::ops::Unpack;
use crate::reference::view::f32_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Unpack {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("unpack")) };
        Ok(vec![f32_bytes(&x.f32s()?)])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Unpack;
    use crate::reference::testing::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn blocks_of_a_stack_of_experts_become_f32() {
        let mut x = vec![0.0f32; 2 * 2 * 32];
        (x[0], x[1], x[127]) = (127.0, -3.0, 254.0);
        let y = &run(Unpack, &[&q8_0(&[2, 2, 32], &x)])[0];
        assert_eq!(y.ty.to_string(), "tensor<2x2x32xf32>");
        assert_eq!(y.f32s(), x);
    }

    #[test]
    fn floats_are_not_packed() {
        let e = fails(Unpack, &[&f32s(&[1], &[0.0])]);
        assert_eq!(e.what, "unpack: x is tensor<1xf32>, expected a tensor of packed blocks");
    }
}
