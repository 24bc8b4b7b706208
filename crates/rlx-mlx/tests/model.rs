//! Whole language models on MLX's CPU.

use crate::common::own_device;
use crate::recorded;
use rlx_core::types::DType;

#[test]
fn greedy_tokens_are_llama_cpps() {
    recorded::greedy_tokens_are_llama_cpps(own_device(), usize::MAX, 64);
}

#[test]
fn logits_agree_with_the_reference_device() {
    recorded::logits_agree_with_the_reference_device(|| own_device(), Some((DType::BF16, 1e-2)));
}
