//! Where the largest elements stand.

use super::sort::orders;
use crate::error::Result;
use crate::ops::TopK;
use crate::reference::index::{around, sizes};
use crate::reference::view::word_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for TopK {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("top_k")) };
        let dims = sizes(&x.ty.shape)?;
        let around = around(&dims, dims.len().saturating_sub(1))?;
        let k = self.k as usize; // the type rule says at most the last axis
        let best = orders(x, around, true)?;
        let best = best.iter().flat_map(|order| order.iter().take(k).map(|&i| i as u32));
        Ok(vec![word_bytes(&best.collect::<Vec<u32>>())])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::TopK;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    #[test]
    fn the_largest_come_first_and_ties_go_to_the_lower_index() {
        let x = f32s(&[2, 4], &[1.0, 3.0, 3.0, 2.0, -1.0, f32::NEG_INFINITY, 0.0, -0.0]);
        assert_eq!(run_ints(TopK { k: 2 }, &[&x]), [1, 2, 2, 3]);
        assert_eq!(run_ints(TopK { k: 4 }, &[&x]), [1, 2, 3, 0, 2, 3, 0, 1]);
        assert!(run_ints(TopK { k: 0 }, &[&x]).is_empty());
        assert_eq!(run_ints(TopK { k: 1 }, &[&f32s(&[3], &[5.0, f32::NAN, 9.0])]), [1]);
        let x = integers(DType::U32, &[3], &[1, 0xffff_ffff, 2]);
        assert_eq!(run_ints(TopK { k: 2 }, &[&x]), [1, 2]);
    }

    #[test]
    fn its_parts_are_a_sort_and_a_slice() {
        let x: alloc::vec::Vec<f32> = noise(60, 9).iter().map(|x| (x * 4.0).round()).collect();
        for k in [0, 1, 3, 5] {
            decomposes(TopK { k }, &[&f32s(&[3, 4, 5], &x)], 0.0);
        }
        decomposes(TopK { k: 2 }, &[&f32s(&[0, 3], &[])], 0.0);
    }

    #[test]
    fn the_last_axis_has_at_least_k() {
        assert_eq!(gives(TopK { k: 8 }, &["SEQx64xf32"]), ["tensor<SEQx8xu32>"]);
        assert_eq!(
            refuses(TopK { k: 3 }, &["4x2xf32"]),
            "top_k: x is tensor<4x2xf32>, expected a last axis of at least 3"
        );
        assert!(refuses(TopK { k: 0 }, &["f32"]).contains("tensor<f32>"));
        assert!(refuses(TopK { k: 1 }, &["2xbool"]).contains("tensor<2xbool>"));
        assert_eq!(text(TopK { k: 2 }, &["3xf32"]), "top_k {k = 2}");
    }
}
