//! Every integration test of this executor in one binary: kernels run in the emulator, as C++.

mod attention_row;
mod attention_rows;
#[path = "../../../tests/support/banks.rs"]
mod banks;
mod checks;
mod common;
mod emulator;
mod experts;
mod fake;
// Hundreds of kernels, each compiled: `cargo test -p rlx-metal --features wide` runs these.
#[cfg(feature = "wide")]
#[path = "../../../tests/support/graphs/mod.rs"]
mod graphs;
#[path = "../../../tests/support/language.rs"]
mod language;
#[path = "../../../tests/support/load.rs"]
mod load;
mod model;
#[path = "../../../tests/support/moves.rs"]
mod moves;
mod one_row;
mod operators;
mod products;
#[path = "../../../tests/support/step.rs"]
mod step;
mod tensors;
mod texts;

#[test]
fn tensors_stay_and_are_copied_and_read() {
    moves::tensors_stay_on_the_device_and_are_copied_and_read(&*common::device());
}
