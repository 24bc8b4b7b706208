//! Families of language models on XLA's CPU device, against the reference's.

use crate::common::executor;
use crate::recorded;

#[test]
fn logits_agree_with_the_reference_device() {
    recorded::logits_agree_with_the_reference_device(|| executor(), None);
}
