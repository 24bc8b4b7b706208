//! Integration tests of this executor that take seconds, on XLA's CPU device. `wide.rs` has those that take minutes.

#[path = "../../../tests/support/bless.rs"]
mod bless;
mod common;
mod group;
#[path = "../../../tests/support/language.rs"]
mod language;
#[path = "../../../tests/support/load.rs"]
mod load;
mod model;
#[path = "../../../tests/support/moves.rs"]
mod moves;
mod operators;
mod plugin;
#[path = "../../../tests/support/recorded.rs"]
mod recorded;
#[path = "../../../tests/support/skip.rs"]
mod skip;
#[path = "../../../tests/support/step.rs"]
mod step;
mod texts;

#[test]
fn tensors_stay_and_are_copied_and_read() {
    if common::ready("tensors_stay_and_are_copied_and_read") {
        moves::tensors_stay_on_the_device_and_are_copied_and_read(&*common::executor());
    }
}
