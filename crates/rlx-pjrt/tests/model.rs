//! Whole language models on XLA's CPU device.

use crate::common::{executor, ready};
use crate::recorded;

#[test]
fn greedy_tokens_are_llama_cpps() {
    if ready("model::greedy_tokens_are_llama_cpps") {
        recorded::greedy_tokens_are_llama_cpps(executor(), usize::MAX, 48);
    }
}
