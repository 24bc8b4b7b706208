//! Matrices of experts and who is sent to them: operands that tests of executors share.

use crate::common::*;
use rlx_core::types::{DType, Shape, Type};

pub fn noise(rng: &mut Rng, dims: &[u64]) -> Operand {
    input(dims, &rng.floats(dims.iter().product::<u64>() as usize))
}

pub fn bank(rng: &mut Rng, dtype: DType, [experts, n, k]: [u64; 3]) -> Operand {
    let bytes = random_weights(rng, dtype, (experts * n) as usize, k as usize);
    weight(dtype, &[experts, n, k], bytes)
}

/// Experts of each row, the last of them too large.
pub fn choices(rng: &mut Rng, [m, top_k]: [u64; 2], experts: u64) -> Operand {
    let mut ids: Vec<u32> = (0..m * top_k).map(|_| (rng.next() % experts) as u32).collect();
    *ids.last_mut().expect("a row") = u32::MAX;
    let ty = Type::tensor(DType::U32, Shape::of(&[m, top_k]));
    Operand { ty, bytes: u32_bytes(&ids), ..input(&[], &[0.0]) }
}
