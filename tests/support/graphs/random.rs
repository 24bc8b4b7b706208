//! Random numbers: the words are every device's; normal ones differ by f32's roundings.

use super::*;
use crate::common::device;
use rlx_core::ops::{RandomNormal, RandomUniform};

fn key(words: [u32; 4]) -> Operand {
    tensor(Scalar::U32, &[4], &words.map(f64::from))
}

#[test]
fn uniform_numbers_are_the_references() {
    let d = device();
    for words in [[0; 4], [7, 9, u32::MAX, 3], [1, 2, u32::MAX - 4, u32::MAX]] {
        for dims in [vec![1u64], vec![5, 13], vec![], vec![0, 4], vec![1000]] {
            check(&d, RandomUniform { dims: Shape::of(&dims) }, &[key(words)], 0.0);
        }
    }
}

#[test]
fn normal_numbers_are_the_references_within_roundings() {
    let d = device();
    for words in [[0; 4], [7, 9, u32::MAX, 3], [1, 2, 3, 4]] {
        for dims in [vec![1u64], vec![3, 7], vec![200, 101]] {
            check(&d, RandomNormal { dims: Shape::of(&dims) }, &[key(words)], 4e-7);
        }
    }
}
