//! Every integration test of this executor in one binary: kernels run in the emulator.

#[path = "../../../tests/support/begun.rs"]
mod begun;
mod common;
mod emulator;
mod experts;
mod fake;
mod hip;
#[path = "../../../tests/support/language.rs"]
mod language;
#[path = "../../../tests/support/load.rs"]
mod load;
mod model;
#[path = "../../../tests/support/moves.rs"]
mod moves;
mod operators;
mod recorder;
mod recurrent;
mod rocm;
#[path = "../../../tests/support/skip.rs"]
mod skip;
#[path = "../../../tests/support/step.rs"]
mod step;

#[test]
fn tensors_stay_and_are_copied_and_read() {
    moves::tensors_stay_on_the_device_and_are_copied_and_read(&*common::device());
}

#[test]
fn programs_run_in_two_parts() {
    assert!(begun::programs_run_in_two_parts(&*common::device()), "the first part runs at once");
}
