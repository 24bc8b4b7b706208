//! Uniform random numbers; `random_normal` reads the same words.

use crate::error::{Error, Result};
use crate::ops::RandomUniform;
use crate::reference::index::{room, sizes};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use crate::sample::philox::philox4x32_10;
use crate::types::{DType, Shape};
use alloc::vec;
use alloc::vec::Vec;

/// 2^-24: a word's upper 24 bits become a number below 1.
pub(crate) const UNIT: f64 = 1.0 / 16_777_216.0;

impl Run for RandomUniform {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let n = sizes(&self.dims)?.iter().product();
        let words = words(&self.dims, operands)?;
        let y: Vec<f64> = words.iter().take(n).map(|w| f64::from(w >> 8) * UNIT).collect();
        Ok(vec![scalar_bytes(DType::F32, &y)?])
    }
}

/// Words for a shape's elements: whole blocks of four.
pub(crate) fn words(dims: &Shape, operands: &[View<'_>]) -> Result<Vec<u32>> {
    let [key] = operands else { return Err(arity("random")) };
    let &[seed_low, seed_high, low, high] = key.words().as_slice() else {
        return Err(Error::internal("random: a key has four words"));
    };
    let offset = u64::from(high) << 32 | u64::from(low);
    let n: usize = sizes(dims)?.iter().product();
    let mut out = room(n.next_multiple_of(4))?;
    for block in 0..n.div_ceil(4) as u64 {
        let at = offset.wrapping_add(block);
        out.extend(philox4x32_10([at as u32, (at >> 32) as u32, 0, 0], [seed_low, seed_high]));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::ops::RandomUniform;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::{Dim, Shape};

    fn uniform(dims: &[u64]) -> RandomUniform {
        RandomUniform { dims: Shape::of(dims) }
    }

    #[test]
    fn words_are_those_that_random123_publishes() {
        // Counter 0 under key 0.
        let words = [0x6627_e8d5u32, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
        let y = run1(uniform(&[4]), &[&u32s(&[4], &[0; 4])]);
        assert_eq!(y, words.map(|w| (w >> 8) as f32 / 16_777_216.0));
    }

    #[test]
    fn an_offset_skips_blocks_of_four_and_carries() {
        let at = |low, high, n| run1(uniform(&[n]), &[&u32s(&[4], &[7, 9, low, high])]);
        assert_eq!(at(0, 0, 12)[4..], at(1, 0, 8));
        assert_eq!(at(u32::MAX, 0, 8)[4..], at(0, 1, 4));
        assert_eq!(at(u32::MAX, u32::MAX, 8)[4..], at(0, 0, 4));
        assert_eq!(at(3, 0, 7), at(3, 0, 8)[..7], "an odd count is a prefix");
        assert_ne!(at(0, 0, 4), run1(uniform(&[4]), &[&u32s(&[4], &[8, 9, 0, 0])]));
    }

    #[test]
    fn numbers_are_in_the_unit_interval_and_spread() {
        let y = run1(uniform(&[100, 100]), &[&u32s(&[4], &[1, 2, 3, 4])]);
        assert!(y.iter().all(|y| (0.0..1.0).contains(y)));
        let mean: f32 = y.iter().sum::<f32>() / 1e4;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert!(run1(uniform(&[0]), &[&u32s(&[4], &[0; 4])]).is_empty());
    }

    #[test]
    fn the_key_is_four_words() {
        let op = RandomUniform { dims: Shape([Dim::symbol("SEQ"), 2u64.into()].into()) };
        assert_eq!(gives(op.clone(), &["4xu32"]), ["tensor<SEQx2xf32>"]);
        assert_eq!(text(op.clone(), &["4xu32"]), "random_uniform {dims = [SEQ, 2]}");
        assert_eq!(
            refuses(op, &["2xu32"]),
            "random_uniform: key is tensor<2xu32>, expected tensor<4xu32>"
        );
    }
}
